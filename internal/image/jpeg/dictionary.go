package jpeg

// restDictionary is the preset dictionary of rests. It is part of the format: a rest can only be inflated with the very bytes that
// it was deflated with, so it must never change. Nearer its end stands what is more frequent.
var restDictionary = func() (b []byte) {
	return append(b, "JFIF\x00"...)
}()
