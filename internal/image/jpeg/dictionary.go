package jpeg

import _ "embed"

// restDictionary is the preset dictionary of rests. It is part of the format (docs/format/coefficients.md): a rest can only be inflated
// with the very bytes that it was deflated with, so they must never change. It has what many files share: Hewlett-Packard's ICC profile of
// sRGB, which one photograph in five carries and which does not deflate well, the beginnings of segments, and the gaps of a file
// with the tables of annex K.3, all four in one DHT and each in its own.
//
//go:embed dictionary.bin
var restDictionary []byte
