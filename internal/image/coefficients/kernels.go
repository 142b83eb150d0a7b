package coefficients

//go:generate go run ../../lanes/generate -neon unpack_avx2.go

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// kernels are the inner loops of decoding, and one of encoding. All sets have the same results as the generic one.
// Callers must check that the input is complete; up to [SlackBytes] behind it may be read too.
type kernels struct {
	// spread makes quads' masks from the codes of their cells and from these cells' bits.
	spread func(masks []pairMasks, codes, cells []byte)

	// unpack unpacks as many bundles as there are widths. It adds more, 0 or 1, to values that are not negative.
	unpack func(values, widths, planes []byte, more int8)

	// expand sets zeroed quads from values by the masks, from the values of the first cells, and from the four DC
	// coefficients of each. It returns the number of values used.
	expand func(quads []*jpeg.Quad, masks []pairMasks, values, firsts []byte, dcs [][4]int16) int

	// list writes the second list's values of a quad, for its first pairs of rows: the nonzero coefficients outside the first cell,
	// positive ones less one. It sets the masks of these pairs, and returns the number of values. large reports that some may need more
	// than eight bits; their bytes are undefined. Up to listSlack bytes after the values are overwritten.
	list func(values []byte, q *jpeg.Quad, pairs int, masks *pairMasks) (n int, large bool)
}

const listSlack = 64

var (
	byLevel = kernel.Table[kernels]{kernel.Generic: &generic}
	generic = kernels{spread: spreadGeneric, unpack: unpackGeneric, expand: expandGeneric, list: listGeneric}
)

func start(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
