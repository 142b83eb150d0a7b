package targets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// Values are the targets of a split: objects, masks or both. They implement [dataset.Targets].
type Values struct {
	Objects *Objects // nil: none
	// Read returns the objects of an image of w × h pixels.
	Read func(key string, w, h int) ([]Object, error)
	// Declared returns the image's size as the dataset says it, 0 if it does not. Sizes that differ are refused.
	Declared func(key string) (w, h int)
	IDs      map[string]int64 // the images' ids; nil: none

	Masks  *Masks    // nil: none
	MaskOf *Beside   // the files of the masks
	Files  []*Beside // all files that targets are read from; the dataset's identity has other files
	counts counts
}

// AddMasks adds masks in files below a folder, called as the images but for the ends of their names. Labels have the names of classes.
func (v *Values) AddMasks(files *transport.TreeFiles, classes []string, o dataset.TargetOptions, ends ...string) {
	v.Masks, v.MaskOf = NewMasks(classes, o), &Beside{TreeFiles: files, Ends: ends}
	v.Files = append(v.Files, v.MaskOf)
}

// addObjects adds objects in files below a folder, called as the images but for the end of their names. parse reads one. missing says in
// the singular and the plural that an image has no file, which is counted then.
func (v *Values) addObjects(m *Objects, files *Beside, missing [2]string, parse func(data []byte, key string, w, h int) ([]Object, error)) {
	v.Objects, v.Files = m, append(v.Files, files)
	v.Read = func(key string, w, h int) (objects []Object, err error) {
		name, data, err := files.read(key)
		switch {
		case err == nil:
			if objects, err = parse(data, key, w, h); err != nil {
				err = transport.RefuseEntry(files.Root, name, "%v", err)
			}
		case errors.Is(err, fs.ErrNotExist):
			if err = nil; missing[0] != "" {
				v.counts.add(missing[0], missing[1], key)
			}
		}
		return objects, err
	}
}

func (v *Values) Pin(dst []byte, key string, dates bool) (_ []byte, err error) {
	inFiles := false
	for _, files := range v.Files {
		if files == v.MaskOf || dates {
			dst, err = files.pin(dst, key, dates)
		} else { // a class may change and the size stay
			var text []byte
			if _, text, err = files.read(key); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			dst = append(append(dst, text...), 0)
		}
		if err != nil {
			return dst, err
		}
		inFiles = inFiles || files != v.MaskOf
	}
	if v.Objects == nil || inFiles {
		return dst, nil
	}
	objects, err := v.Read(key, 0, 0)
	if err != nil {
		return dst, err
	}
	return binary.Append(binary.LittleEndian.AppendUint64(dst, uint64(v.IDs[key])), binary.LittleEndian, objects)
}

func (v *Values) Fields() (fields shard.Fields) {
	if v.Objects != nil {
		fields = append(fields, v.Objects.Field)
	}
	if v.IDs != nil {
		fields = append(fields, shard.Field{Name: imageIDName, Type: shard.Int64})
	}
	if v.Masks != nil {
		fields = append(fields, v.Masks.Field)
	}
	return fields
}

func (v *Values) Notes() (notes []string) {
	if v.Objects != nil {
		notes = v.Objects.counts.Notes()
	}
	return append(notes, v.counts.Notes()...)
}

func (v *Values) Append(dst []byte, key string, image []byte) ([]byte, error) {
	sample := Sample{ID: v.IDs[key]}
	w, h, err := imagefile.Size(image)
	if err == nil && v.Objects != nil {
		sample.Objects, err = v.Read(key, w, h)
	}
	if err == nil && v.Masks != nil {
		if _, sample.Mask, err = v.MaskOf.read(key); errors.Is(err, fs.ErrNotExist) {
			err = reject("there is no mask for it")
		}
	}
	if err != nil {
		return dst, err
	}
	return v.AppendSample(dst, key, image, sample)
}

// A Sample is what a dataset says of one image.
type Sample struct {
	Objects []Object
	ID      int64
	Mask    []byte // a PNG
}

// AppendSample appends the values for an image. The errors are those of Append.
func (v *Values) AppendSample(dst []byte, key string, image []byte, sample Sample) ([]byte, error) {
	w, h, err := imagefile.Size(image)
	if err == nil {
		err = v.checkSize(key, image, w, h)
	}
	var labels []byte
	if err == nil && v.Masks != nil {
		labels, err = v.Masks.append(nil, sample.Mask, w, h)
	}
	if err == nil && v.Objects != nil { // last, since it counts
		dst, err = v.Objects.append(dst, key, sample.Objects, w, h)
	}
	if err != nil {
		return dst, err
	}
	if v.IDs != nil {
		dst = shard.AppendInts(dst, sample.ID)
	}
	return append(dst, labels...), nil
}

// reject is the error for one sample that cannot be used.
func reject(format string, args ...any) error {
	return &transport.RejectError{Reason: fmt.Sprintf(format, args...)}
}

// checkSize compares an image's size with the one that the dataset declares. Boxes may have been drawn on the image as its EXIF orientation
// turns it, which neither Pillow nor imgfeed does.
func (v *Values) checkSize(key string, image []byte, w, h int) error {
	turned := imagefile.Orientation(image)
	if turned > 1 {
		v.counts.add("image has an EXIF orientation, which is not followed, as Pillow does not; look whether its boxes or mask fit",
			"images have an EXIF orientation, which is not followed, as Pillow does not; look whether their boxes or masks fit", key)
	}
	if v.Declared == nil {
		return nil
	}
	switch width, height := v.Declared(key); {
	case width == 0 || height == 0 || width == w && height == h:
		return nil
	case turned >= 5 && width == h && height == w:
		return reject("the image has %d×%d pixels, and its boxes were drawn on %d×%d, as its EXIF orientation %d turns it: "+
			"turn the file (exiftran -ai, jpegtran) or the boxes", w, h, width, height, turned)
	default:
		return reject("the image has %d×%d pixels, and its annotation says %d×%d", w, h, width, height)
	}
}

// Masks makes the values of a field of masks.
type Masks struct {
	Field   shard.Field
	options dataset.TargetOptions
}

// NewMasks makes values of masks. classes name their labels; nil: the labels have no names.
func NewMasks(classes []string, o dataset.TargetOptions) *Masks {
	return &Masks{shard.Field{Name: maskName, Type: shard.Mask, Classes: classes}, o}
}

// append appends the mask in a PNG for an image of w × h pixels.
func (m *Masks) append(dst, file []byte, w, h int) ([]byte, error) {
	l, err := imagefile.ReadLabels(file, w, h)
	if err != nil {
		return dst, reject("%v", err)
	}
	if l.Bytes == nil && m.options.Map == nil {
		return dst, reject("its mask has %s, and labels are numbers up to 255; %v", l.Kind, remedy.MapLabels)
	}
	labels := l.Bytes
	if m.options.Map != nil {
		if labels, err = m.mapped(l); err != nil {
			return dst, err
		}
	}
	if m.options.ReduceZero {
		for i := range labels {
			labels[i]-- // 0 becomes 255
			if labels[i] == 254 {
				labels[i] = 255 // It was 255, which no class has.
			}
		}
	}
	return shard.AppendBytes(dst, mask.Append(nil, w, h, labels)), nil
}

// mapped returns the labels by the map of the options.
func (m *Masks) mapped(l imagefile.Labels) ([]byte, error) {
	labels := make([]byte, l.Width*l.Height)
	last, to := -1, byte(0)
	for i := range labels {
		from := 0
		if l.Bytes != nil {
			from = int(l.Bytes[i])
		} else {
			from = l.Wide[i]
		}
		if from != last {
			var ok bool
			if to, ok = m.options.Map.Of(from); !ok {
				return nil, reject("its mask has the label %d, which the map of labels lacks", from)
			}
			last = from
		}
		labels[i] = to
	}
	return labels, nil
}
