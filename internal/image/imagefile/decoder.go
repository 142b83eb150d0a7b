package imagefile

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"io"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// A Decoder decodes one file after the other: regions of a JPEG, whole images of the other formats. It keeps its memory from
// file to file, so that it allocates nothing in the steady state for JPEG. It serves one goroutine at a time.
type Decoder struct {
	format Format // format of the current file
	jpeg   *jpeg.Decoder
	whole  RGB // the current image, unless it is a JPEG
}

// NewDecoder returns a Decoder with kernels of the given level.
func NewDecoder(level kernel.Level) *Decoder { return &Decoder{jpeg: jpeg.New(level)} }

// KeepBytesMax bounds each buffer that is kept from image to image: a photograph of 20 megapixels. One huge image must
// not permanently occupy memory in every worker.
const KeepBytesMax = 64 << 20

// Open starts on a file and returns its size in pixels. If format is Unknown, it is detected. index is Check's result
// for the file, or empty. Both are read until Decode returns.
func (d *Decoder) Open(format Format, data, index []byte) (width, height int, err error) {
	if d.format = format; format == Unknown {
		d.format = Sniff(data)
	}
	if cap(d.whole.Pix) > KeepBytesMax {
		d.whole.Pix = nil
	}
	if d.format == JPEG {
		config, err := d.jpeg.Reset(data, index)
		return config.Width, config.Height, err
	}
	if err := d.decodeWhole(data); err != nil {
		return 0, 0, named(d.format, err)
	}
	return d.whole.Width, d.whole.Height, nil
}

// Raw returns the image if Open has decoded all of it, else nil. It is valid until the next Open.
func (d *Decoder) Raw() *RGB {
	if d.format == JPEG {
		return nil
	}
	return &d.whole
}

// Decode writes the pixels of r to dst, rows stride bytes apart. It may be called once after an Open, if Raw returns nil.
func (d *Decoder) Decode(dst []byte, stride int, r image.Rectangle) error {
	return d.jpeg.Decode(dst, stride, r)
}

// Repaired returns the damage that Check or Decode repaired in the last file, as libjpeg does, or nil.
func (d *Decoder) Repaired() error {
	if d.format != JPEG {
		return nil
	}
	return d.jpeg.Damage()
}

// Info is Check's description of a file.
type Info struct {
	Format        Format
	Width, Height int // pixels
}

// Check decodes all of a file, and appends a JPEG's row index, which speeds up the decoding of regions, to index.
func (d *Decoder) Check(index, data []byte) (Info, []byte, error) {
	info := Info{Format: Sniff(data)}
	if d.format = info.Format; info.Format == JPEG {
		index, config, err := d.jpeg.AppendIndex(index, data)
		info.Width, info.Height = config.Width, config.Height
		return info, index, err
	}
	var err error
	info.Width, info.Height, err = d.Open(info.Format, data, nil)
	return info, index, err
}

// decodeWhole decodes a file of a format other than JPEG.
func (d *Decoder) decodeWhole(data []byte) error {
	var f format
	if int(d.format) < len(formats) {
		f = formats[d.format]
	}
	switch {
	case len(data) == 0:
		return errors.New("the file is empty")
	case d.format == Unknown && unread(data) != "":
		return &UnsupportedError{fmt.Sprintf("images of the format %s are not read: convert them to JPEG or PNG", unread(data))}
	case d.format == Unknown:
		return &UnsupportedError{fmt.Sprintf("not an image (it begins % x)", data[:min(len(data), 8)])}
	case f.config == nil:
		return &UnsupportedError{fmt.Sprintf("images of the format %v are not read", d.format)}
	}
	config, err := f.config(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if config.Width < 1 || config.Height < 1 {
		return fmt.Errorf("the image has %d×%d pixels", config.Width, config.Height)
	}
	if config.Width*config.Height > PixelsMax {
		return &LimitError{config.Width, config.Height}
	}
	if len(data) < f.bytesMin(config, data) {
		return io.ErrUnexpectedEOF
	}
	return f.decode(&d.whole, config, data)
}

func named(f Format, err error) error {
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return fmt.Errorf("%v: the file is cut short", f)
	}
	if _, ok := err.(*UnsupportedError); ok || f == Unknown || strings.HasPrefix(err.Error(), f.String()+":") {
		return err
	}
	return fmt.Errorf("%v: %w", f, err)
}
