package coefficients

//go:generate go run ../../lanes/generate -neon unpack_avx2.go

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// kernels are the inner loops of decoding, and one of encoding; every set does exactly what the generic one does. They trust their callers,
// who have checked that all they read is there: [SlackBytes] behind it may be read too.
type kernels struct {
	// spread makes quads' masks of the codes of their cells and of these cells' bits.
	spread func(masks []pairMasks, codes, cells []byte)

	// unpack unpacks bundles, as many as have widths. It adds more, 0 or 1, to values from zero on.
	unpack func(values, widths, planes []byte, more int8)

	// expand sets quads, which are zero, from values, as the masks say, from the values of the first cells, and from the four DC coefficients
	// of each. It returns how many values it took.
	expand func(quads []*jpeg.Quad, masks []pairMasks, values, firsts []byte, dcs [][4]int16) int

	// list writes the second list's values of a quad, of so many of its pairs of rows: the coefficients that are not zero and not the first
	// cell's, those from one on less one. It sets the masks of these pairs, and returns how many values there are. large says that some may
	// take more than eight bits; for these there is any byte. Up to listSlack bytes after the values are overwritten.
	list func(values []byte, q *jpeg.Quad, pairs int, masks *pairMasks) (n int, large bool)
}

const listSlack = 64

var (
	byLevel = kernel.Table[kernels]{kernel.Generic: &generic}
	generic = kernels{spread: spreadGeneric, unpack: unpackGeneric, expand: expandGeneric, list: listGeneric}
)

func kernelsFor(level kernel.Level) kernels {
	if k := byLevel[level]; k != nil {
		return *k
	}
	return generic
}

func start(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
