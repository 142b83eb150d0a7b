package transform

import (
	"fmt"
	"image"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
	"github.com/imgfeed/imgfeed/transform/internal/blur"
	"github.com/imgfeed/imgfeed/transform/internal/pointwise"
)

// A Source is a stored image. The engine only reads it, and only during the call.
type Source struct {
	// Format is the format of Image; the zero value means to look at its first bytes.
	Format Format
	// Image holds the encoded image. For full speed the memory after it should be readable (cap − len ≥ 64).
	Image []byte
	// Aux helps with decoding: a JPEG's row index, made by the packer. It may be empty; docs/format/jpeg-index.md
	// says what happens with a wrong one.
	Aux []byte
	// Encoding decodes a record of a set's encoding; nil if Image is an image file.
	Encoding Encoding
	// Prefetch is the next source's Image, if known: it is fetched into the processor's cache meanwhile.
	Prefetch []byte
	// NonTemporal lets the result bypass the processor's caches, because it will not be read soon.
	NonTemporal bool
}

// An ImageError says that an image cannot be decoded. Unwrap gives the decoder's own error, which distinguishes
// malformed from unsupported data.
type ImageError struct{ Err error }

func (e *ImageError) Error() string { return "transform: " + e.Err.Error() }
func (e *ImageError) Unwrap() error { return e.Err }

// Times are the total times of an Engine's stages.
type Times struct {
	Decode   time.Duration // stored bytes to RGB
	Resample time.Duration // RGB to finished pixels: resize, crop, flip and layout
}

// An Engine applies transforms. It keeps its decoders and scratch memory from image to image and allocates nothing in the
// steady state for JPEG. It serves one goroutine at a time; workers have one each.
type Engine struct {
	resampler *resample.Resampler
	mapper    *affine.Mapper
	blurrer   *blur.Blurrer
	adjuster  *pointwise.Adjuster
	stored    storedImage      // decodes the current source
	canvas    canvas           // canvas of the current image
	region    imagefile.RGB    // the needed region of an undecoded image
	padded    []byte           // a resized image before it gets borders
	scratch   [2]imagefile.RGB // images between two passes, used in turn
	final     imagefile.RGB    // the result, while a change is written to it
	shared    imagefile.RGB    // the region of an image that several views need
	single    [1]View
	columns   []int     // source columns that a padded image shows
	unmixed   []byte    // the image before mixing
	blended   []byte    // the image blended with one chain after the other
	sums      []float32 // weighted sum of the mixed images
	log       *recorder // record of the work; nil if it is not recorded
	times     Times

	blurWeights [2][]float32 // across and down
}

// NewEngine returns an Engine that runs kernels of the given level.
func NewEngine(level Level) *Engine {
	return &Engine{
		resampler: resample.New(level), mapper: affine.New(level), blurrer: blur.New(level), adjuster: pointwise.New(level),
		stored: storedImage{level: level, files: imagefile.NewDecoder(level), encodings: make(map[Encoding]Decoder)},
	}
}

// Times returns the time spent so far.
func (e *Engine) Times() Times { return e.times }

// Apply decodes src, applies spec with the random parameters that draws gives, and writes the result to dst.Pix: the
// spec's OutputSize as uint8 RGB in dst.Layout. dst.Width, dst.Height and dst.Flip are set by the engine.
//
// On success every byte of the output is written. On error its contents are undefined; the error is an [*ImageError],
// a [*SizeError], or says that the destination is too small.
func (e *Engine) Apply(spec *Spec, dst Output, src Source, draws RNG) (Params, error) {
	e.single[0] = View{Spec: spec, Dst: dst, RNG: draws}
	err := e.ApplyViews(src, e.single[:])
	return e.single[0].Params, err
}

// applyTo makes one result of the image in from; whole is its first step, which changes nothing.
func (e *Engine) applyTo(v *View, from *imagefile.RGB, whole step) error {
	dst := v.Dst
	if dst.Width, dst.Height = v.Spec.width, v.Spec.height; len(dst.Pix) < v.Spec.OutputBytes() {
		return fmt.Errorf("%w: destination of %d bytes for %d×%d pixels", resample.ErrArgument, len(dst.Pix), dst.Width, dst.Height)
	}
	c := &e.canvas
	*c = canvas{engine: e, draws: v.RNG, log: e.log, part: v.Spec.part, targets: v.Targets, from: from, step: whole, colours: c.colours[:0]}
	if c.params.setCrop(whole.keep); c.targets != nil {
		c.targets.begin(c.size())
	}
	for _, c.op = range v.Spec.ops {
		if err := c.op.apply(c); err != nil {
			return err
		}
	}
	if c.targets != nil {
		c.targets.finish()
	}
	return c.finish(dst)
}

// trim releases scratch memory that an unusually large image needed.
func (e *Engine) trim() {
	scratch := []*[]byte{&e.region.Pix, &e.padded, &e.shared.Pix, &e.unmixed, &e.blended, &e.scratch[0].Pix, &e.scratch[1].Pix}
	for _, memory := range scratch {
		if cap(*memory) > imagefile.KeepBytesMax {
			*memory = nil
		}
	}
	if cap(e.sums) > imagefile.KeepBytesMax {
		e.sums = nil
	}
}

// DecodeFull decodes the whole image and returns its RGB pixels, rows without gaps, valid until the next call. It
// serves to measure decoding alone, and to show stored images.
func (e *Engine) DecodeFull(src Source) (pix []byte, width, height int, err error) {
	same := func(w, h int) (int, int, error) { return w, h, nil }
	return e.DecodeResized(src, same, Bilinear, Pillow13)
}

// Repaired returns the damage that was repaired in the decoded part of the last image file, as libjpeg repairs it, or nil.
func (e *Engine) Repaired() error { return e.stored.files.Repaired() }

// render writes the result of a step to dst, which has keep's size, after changes of the pixels.
func (e *Engine) render(dst Output, from *imagefile.RGB, colours []colour, s *step) error {
	inside, need := s.needs()
	if inside.Empty() {
		return e.resampler.CopyPadded(dst, nil, 0, image.Rectangle{}, s.keep, s.fill)
	}
	shown := inside.Sub(s.keep.Min)
	if from == nil && !s.resizes() {
		if done, err := e.decodeStraight(dst, shown, need.Add(s.box.Min), colours); done {
			dst.PaintAround(shown, s.fill)
			return err
		}
	}
	src, stride, err := e.pixelsOf(from, need.Add(s.box.Min))
	if err != nil {
		return err
	}
	started := time.Now()
	defer func() { e.times.Resample += time.Since(started) }()
	if len(colours) > 0 {
		if own := from == nil || from == &e.scratch[0] || from == &e.scratch[1]; !own || stride != 3*need.Dx() {
			e.region.Resize(need.Dx(), need.Dy())
			for y := range need.Dy() {
				copy(e.region.Pix[3*need.Dx()*y:][:3*need.Dx()], src[stride*y:])
			}
			src, stride = e.region.Pix, 3*need.Dx()
		}
		e.recolour(src, src, colours)
	}
	if !s.resizes() {
		return e.resampler.CopyPadded(dst, src, stride, need, s.keep, s.fill)
	}
	scaling := resample.Scaling{
		Src: src, Stride: stride, Have: need, SrcW: s.box.Dx(), SrcH: s.box.Dy(), Mirrored: s.mirrored, OutW: s.width, OutH: s.height,
		Keep: inside, Filter: s.method.filter, Algorithm: s.method.algorithm,
	}
	if inside == s.keep {
		return e.resampler.Resize(dst, scaling)
	}
	w, h := inside.Dx(), inside.Dy()
	if dst.Flip {
		shown = resample.Mirrored(shown, dst.Width)
	}
	part := dst
	if dst.Layout == NHWC {
		part = dst.Part(shown)
	} else {
		e.padded = imagefile.Grown(e.padded, w*h*3)
		part.Pix, part.Width, part.Height, part.Layout = e.padded, w, h, NHWC
	}
	if err = e.resampler.Resize(part, scaling); err != nil {
		return err
	}
	if dst.Layout == NHWC {
		dst.PaintAround(shown, s.fill)
		return nil
	}
	dst.Flip = false // it is done
	return e.resampler.CopyPadded(dst, e.padded, w*3, shown, image.Rect(0, 0, dst.Width, dst.Height), s.fill)
}

// decodeStraight decodes region r directly into the part of the output that shows it, if the decoder can.
func (e *Engine) decodeStraight(dst Output, shown, r image.Rectangle, colours []colour) (done bool, err error) {
	started := time.Now()
	if shown.Size() == image.Pt(dst.Width, dst.Height) && len(colours) == 0 {
		done, err = e.stored.decodeTo(dst, r)
	}
	if !done && dst.Layout == NHWC && !dst.Flip {
		part := dst.Part(shown)
		done, err = true, e.stored.decode(part.Pix, part.Stride, r)
		pix := part.Pix[:(part.Height-1)*part.Stride+3*part.Width] // the borders between rows are painted later
		e.recolour(pix, pix, colours)
	}
	e.times.Decode += time.Since(started)
	return done, err
}

// pixelsOf returns the pixels of region r of an image, or if from is nil decodes those of the stored image. The slice begins at r's
// first pixel, is as long as r needs, and has imagefile.SlackBytes of capacity after that.
func (e *Engine) pixelsOf(from *imagefile.RGB, r image.Rectangle) (pix []byte, stride int, err error) {
	if from != nil {
		stride = from.Width * 3
		first := r.Min.Y*stride + r.Min.X*3
		return from.Pix[first : first+(r.Dy()-1)*stride+r.Dx()*3 : cap(from.Pix)], stride, nil
	}
	err = e.decode(&e.region, r)
	return e.region.Pix, r.Dx() * 3, err
}

func (e *Engine) decode(to *imagefile.RGB, r image.Rectangle) error {
	to.Resize(r.Dx(), r.Dy())
	started := time.Now()
	err := e.stored.decode(to.Pix, r.Dx()*3, r)
	e.times.Decode += time.Since(started)
	return err
}
