package pack

import (
	"fmt"
	"strings"

	"github.com/imgfeed/imgfeed/internal/encoding"
	"github.com/imgfeed/imgfeed/shard"
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
	return []string{fmt.Sprintf("%d images are too narrow for Resize(256), which the presets eval and train-resize begin with, and will be errors there: remove them (%s)",
		x.n, strings.Join(x.first, ", "))}
}
