package imagefile

// JPEG2000 is ISO/IEC 15444-1, in its file format or as a bare codestream, known by name and not read.
const JPEG2000 Format = 9

var jpeg2000Format = format{name: "jpeg2000", magic: []string{"\x00\x00\x00\x0cjP  \r\n\x87\n", "\xff\x4f\xff\x51"}}
