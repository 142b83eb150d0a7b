package imagefile

// AVIF is AV1's still images in ISO's base media file format, known by name and not read.
const AVIF Format = 8

var avifFormat = format{name: "avif", magic: []string{"????ftypavif", "????ftypavis"}}
