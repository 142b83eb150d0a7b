//go:build unix

package resample

import (
	"bytes"
	"image"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// guarded holds two buffers, each between pages that cannot be touched. Reading or writing one byte before or after a
// buffer that is aligned to such a page is a fault, which ends the test with a stack trace.
type guarded struct {
	src, dst []byte // the accessible pages
	room     []byte // part of dst in front of the last output
}

const (
	guardPage = 1 << 16
	guardSize = 2 << 20
	canary    = 0xa5
)

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	pages := func() []byte {
		all := testenv.Must(unix.Mmap(-1, 0, guardSize+2*guardPage, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE))(t)
		t.Cleanup(func() { unix.Munmap(all) })
		inner := all[guardPage : guardPage+guardSize : guardPage+guardSize]
		testenv.OK(t, unix.Mprotect(inner, unix.PROT_READ|unix.PROT_WRITE))
		return inner
	}
	return &guarded{src: pages(), dst: pages()}
}

// source copies the region have of c's source, rows stride bytes apart, ending at the guard page.
func (g *guarded) source(c resizeCase, have image.Rectangle, stride int) []byte {
	src := g.src[guardSize-(have.Dy()-1)*stride-3*have.Dx():]
	for y := range have.Dy() {
		copy(src[y*stride:][:3*have.Dx()], c.src[3*((have.Min.Y+y)*c.srcW+have.Min.X):])
	}
	return src
}

// output returns size bytes that end at the guard page. check looks at the bytes in front of them.
func (g *guarded) output(size int) []byte {
	g.room = g.dst[max(0, guardSize-size-4096) : guardSize-size]
	for i := range g.room {
		g.room[i] = canary
	}
	clear(g.dst[guardSize-size:])
	return g.dst[guardSize-size:]
}

// check reports bytes written in front of the output.
func (g *guarded) check(t *testing.T, c resizeCase) {
	t.Helper()
	testenv.Require(t, bytes.Count(g.room, []byte{canary}) == len(g.room), "%v: bytes in front of the output were written", c)
}
