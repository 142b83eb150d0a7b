package pixels

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/transform"
)

// A Resize is the change of size of a set's images before they were stored. The zero value means no change: the originals' pixels.
type Resize struct {
	// Height and Width are the size in pixels, as in [transform.Resize]: a Width of 0 means that Height is the length of the
	// shorter side. Both are 0 if LongMax says the size, or nothing does.
	Height, Width int
	LongMax       int                // the limit of the longer side, in pixels; smaller images stay as they are. 0: no bound.
	Interpolation resample.Filter    // the filter
	Resampler     resample.Algorithm // the releases of Pillow whose bits the resize has; the zero value is the newest
}

const noResize = "none"

// ParseResize reads "none"; "256", the length of the shorter side; "256x320", height and width; or "max:500", the
// most that the longer side may have. interpolation is a filter's name, or "" for bilinear. The resampler is the newest.
func ParseResize(size, interpolation string) (s Resize, err error) {
	if size == "" || size == noResize {
		return s, nil
	}
	if s.Interpolation, err = resample.ParseFilter(cmp.Or(interpolation, resample.Bilinear.String())); err != nil {
		return Resize{}, err
	}
	fmt.Sscanf(size, "max:%d", &s.LongMax)
	fmt.Sscanf(size, "%dx%d", &s.Height, &s.Width) // A single number is the height.
	if s.String() != size || max(s.Height, s.Width, s.LongMax) > pixelcodec.MaxDimension {
		return Resize{}, fmt.Errorf("resize %q: want 256 (the shorter side), 256x256 (height and width), "+
			"max:500 (the longer side at most) or none, each from 1 to %d", size, pixelcodec.MaxDimension)
	}
	return s, nil
}

// none reports whether images are stored in their own size.
func (s Resize) none() bool { return s.Height == 0 && s.LongMax == 0 }

// String is the inverse of [ParseResize], without the interpolation and the resampler.
func (s Resize) String() string {
	switch {
	case s.LongMax > 0:
		return fmt.Sprintf("max:%d", s.LongMax)
	case s.Width > 0:
		return fmt.Sprintf("%dx%d", s.Height, s.Width)
	case s.Height > 0:
		return strconv.Itoa(s.Height)
	}
	return noResize
}

// describe says it as one would say the operation.
func (s Resize) describe() string {
	switch {
	case s.LongMax > 0:
		return fmt.Sprintf("a longer side of at most %d, %s", s.LongMax, s.Interpolation)
	case s.Width > 0:
		return fmt.Sprintf("Resize([%d, %d], %s)", s.Height, s.Width, s.Interpolation)
	}
	return fmt.Sprintf("Resize(%d, %s)", s.Height, s.Interpolation)
}

// resized returns the stored size of a w × h image.
func (s Resize) resized(w, h int) (int, int, error) {
	switch {
	case s.Height > 0:
		return transform.Resize{Size: transform.Size{s.Height, s.Width}}.Resized(w, h)
	case s.LongMax > 0 && max(w, h) > s.LongMax:
		long := max(w, h)
		return max(1, w*s.LongMax/long), max(1, h*s.LongMax/long), nil
	}
	return w, h, nil
}

// NotBitExact says, in a sentence for the user, why a transform of the stored images gives other bits than of the originals; "" if
// the bits agree. They agree if nothing was resized. They also agree if the transform begins with just the same resize, by the same
// resampler. Resize of the stored image then changes nothing, and every later operation starts from the same pixels.
func (s Resize) NotBitExact(spec *transform.Spec) string {
	if s.none() {
		return ""
	}
	first, resizes := spec.LeadingResize()
	if s.LongMax == 0 && resizes && first.MaxSize == 0 &&
		first.Size == (transform.Size{s.Height, s.Width}) && first.Interpolation == s.Interpolation {
		if first.Resampler == s.Resampler || s.Interpolation == resample.Nearest { // Nearest is the same in all releases.
			return ""
		}
		return fmt.Sprintf("the images were stored with %s by the resampler %s, and the transform asks for %s: "+
			"it works on the stored images, whose results are those of the originals by %s; "+
			"ask for that, or repack the originals by %s", s.describe(), s.Resampler, first.Resampler, s.Resampler, first.Resampler)
	}
	begins := transform.NameOf(spec.Ops()[0])
	if resizes && first.MaxSize > 0 {
		begins = transform.TextOf(first)
	} else if resizes {
		begins = Resize{Height: first.Size[0], Width: first.Size[1], Interpolation: first.Interpolation}.describe()
	}
	return fmt.Sprintf("the images were stored with %s, and the transform begins with %s: "+
		"it works on the stored images, whose results are not those of the originals; "+
		"a set of the original files, or of pixels without resize, gives those", s.describe(), begins)
}
