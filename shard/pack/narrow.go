package pack

import (
	"fmt"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
)

// narrowShownMax is how many of them are named.
const narrowShownMax = 3

// narrowImages are those that are so much longer in one direction than in the other that they cannot be resized by the shorter side to 256, which
// presets begin with: they are packed, since a RandomResizedCrop can take them, and named.
type narrowImages struct {
	n     int
	first []string
}

func (x *narrowImages) add(s *shard.Sample) {
	if !encoding.TooNarrow(s.Width, s.Height) {
		return
	}
	if x.n++; len(x.first) < narrowShownMax {
		x.first = append(x.first, fmt.Sprintf("%s of %d×%d", s.Key, s.Width, s.Height))
	}
}

// notes names them.
func (x *narrowImages) notes() []string {
	if x.n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s too narrow for Resize(256), with which the presets eval and train-resize begin, and an error there: remove such images (%s)",
		bytesize.Counted(x.n, "image is", "images are"), strings.Join(x.first, ", "))}
}
