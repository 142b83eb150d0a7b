package jpeg

import (
	"bufio"
	"fmt"
	"image"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A pillow is a Python process that decodes files with Pillow.
type pillow struct {
	in  io.Writer
	out *bufio.Reader
}

// startPillow starts a Python that has Pillow, and skips the test without one.
func startPillow(t testing.TB) *pillow {
	t.Helper()
	in, out, _ := pillowtest.Start(t)
	p := &pillow{in, out}
	version := testenv.Must(p.out.ReadString('\n'))(t)
	t.Logf("comparing with %s", strings.TrimSpace(version))
	return p
}

// decode returns a file's size and RGB pixels, or Pillow's error.
func (p *pillow) decode(t testing.TB, path string) (size image.Point, pix []byte, refused error) {
	t.Helper()
	return p.ask(t, "open "+path)
}

// make saves a picture as Pillow encodes it, and returns what decode would.
func (p *pillow) make(t testing.TB, path string, size image.Point, mode string, quality, subsampling, progressive, seed int) []byte {
	t.Helper()
	_, pix, refused := p.ask(t, fmt.Sprintf("make %d %d %s %d %d %d %d %s", size.X, size.Y, mode, quality, subsampling, progressive, seed, path))
	testenv.Require(t, refused == nil, "Pillow cannot make %v %s: %v", size, mode, refused)
	return pix
}

func (p *pillow) ask(t testing.TB, request string) (size image.Point, pix []byte, refused error) {
	t.Helper()
	testenv.Must(fmt.Fprintln(p.in, request))(t)
	line := testenv.Must(p.out.ReadString('\n'))(t)
	if message, ok := strings.CutPrefix(line, "error "); ok {
		return size, nil, fmt.Errorf("%s", strings.TrimSpace(message))
	}
	testenv.Must(fmt.Sscan(line, &size.X, &size.Y))(t)
	pix = make([]byte, size.X*size.Y*3)
	testenv.Must(io.ReadFull(p.out, pix))(t)
	return size, pix, nil
}

// photographs returns the JPEG files of the folder $IMGFEED_TEST_IMAGES, and skips the test without any.
func photographs(t testing.TB) []string {
	t.Helper()
	dir := os.Getenv("IMGFEED_TEST_IMAGES")
	if dir == "" {
		t.Skip("not compared: set IMGFEED_TEST_IMAGES to a folder of photographs (*.JPEG)")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.JPEG"))
	testenv.Require(t, len(files) > 0, "no *.JPEG in IMGFEED_TEST_IMAGES=%s", dir)
	return files
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	return testenv.Must(os.ReadFile(path))(t)
}
