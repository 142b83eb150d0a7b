package imagefile

// TIFF is known by name, and not read.
const TIFF Format = 7

var tiffFormat = format{name: "tiff", magic: []string{"II*\x00", "MM\x00*"}}
