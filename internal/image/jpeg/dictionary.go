package jpeg

import _ "embed"

// restDictionary is the preset dictionary for deflating rests. It is part of the format (docs/format/coefficients.md)
// and must never change, because inflating needs exactly the same bytes. It has the data that many files share: the
// beginnings of segments, and the gaps of files with the tables of annex K.3, once in a single DHT and once in four. It
// also has Hewlett-Packard's ICC profile of sRGB: one photograph in five has it, and it does not deflate well.
//
//go:embed dictionary.bin
var restDictionary []byte
