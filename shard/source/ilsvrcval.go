package source

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"path"
	"strings"
)

// ilsvrcValidation is ILSVRC2012's 50,000 validation images, which are published without folders, and their classes apart from them, in the
// development kit. Which image has which class is a fact that never changes, so the program knows it (vallabels.go):
//
//	ILSVRC2012_img_val.tar    ILSVRC2012_val_00000001.JPEG …
var ilsvrcValidation = Kind{
	Name:   "ILSVRC2012's validation images",
	Forms:  []string{"ILSVRC2012_img_val.tar", "the folder of its images"},
	Labels: "as torchvision has them, without the development kit; --val-labels gives others",
	open:   openIlsvrcValidation,
	takes:  []option{optionValLabels},
}

func openIlsvrcValidation(p *place) ([]*Split, error) {
	if p.given {
		return nil, nil
	}
	if p.folder {
		return openValFolder(p)
	}
	if p.tar == nil {
		return nil, nil
	}
	m, err := p.first()
	if err != nil {
		return nil, err
	}
	folder, name := path.Split(m.name)
	if namedTar(name) || strings.Count(folder, "/") > 1 || folder != "" && !strings.HasPrefix(name, valNamePrefix) {
		return nil, nil
	}
	if err := ilsvrcVal().walk().add(name); err != nil {
		return nil, p.tar.errorf(m.name, "%v", err)
	}
	l := &valTar{strip: folder} // the folder was packed with its name
	l.val, err = openValLabels(p.opts)
	if err == nil {
		l.inTars, err = p.inTars(p.path)
	}
	return []*Split{p.newSplit(l)}, err
}

func openValFolder(p *place) ([]*Split, error) {
	if _, others := p.tars(); len(p.folders) > 0 || len(others) == 0 || len(others) < len(p.files) {
		return nil, nil
	}
	if err := p.noSets(); err != nil {
		return nil, err
	}
	val, err := openValLabels(p.opts)
	if err != nil {
		return nil, err
	}
	if err := val.walk().add(p.files[0]); err != nil {
		return nil, &FormatError{Path: p.path, Entry: p.files[0], Msg: err.Error()}
	}
	return []*Split{p.newSplit(&valFolder{inFolder{root: p.path, tree: p.tree}, val})}, nil
}

// valFolder is the images in a folder.
type valFolder struct {
	inFolder
	val *valLabels
}

func (l *valFolder) describe() string { return "a folder of ILSVRC2012's validation images" }

// bindFields takes fields from files beside the images, and from lists of the validation images.
func (l *valFolder) bindFields(fields []Field) error { return l.sidecars.bindFields(fields) }

func (l *valFolder) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	entries, err := readTop(l.tree, l.root)
	if err != nil {
		return labels{}, err
	}
	val := l.val.walk()
	for _, e := range entries {
		if e.dir {
			s.note("folder %s among the images is left out", e.name)
			continue
		}
		if l.sidecars.is(e.name) {
			continue
		}
		if err := val.add(e.name); err != nil {
			return labels{}, &FormatError{Path: l.root, Entry: e.name, Msg: err.Error()}
		}
		if err := errors.Join(ctx.Err(), fn(Item{Key: e.name, Reason: e.rejectReason()})); err != nil {
			return labels{}, err
		}
	}
	return val.labels(s), nil
}

// valTar is the images in a tar.
type valTar struct {
	inTars
	strip  string
	val    *valLabels
	fields []Field
	values []byte // of the image at hand
}

func (l *valTar) describe() string { return "a tar of ILSVRC2012's validation images" }

// bindFields takes fields from lists of the validation images.
func (l *valTar) bindFields(fields []Field) error {
	for i := range fields {
		if ok, err := fields[i].bindOther(); err != nil || !ok || fields[i].pathLevel > 0 {
			return cmp.Or(err, fields[i].errorf("--field %s=%s: of the tar of validation images only @FILE is read: unpack it", fields[i].Name, fields[i].Source))
		}
	}
	l.fields = fields
	return nil
}

// appendFields appends the values for an image.
func (l *valTar) appendFields(dst []byte, key string) (_ []byte, err error) {
	for i := range l.fields {
		if dst, err = l.fields[i].appendOther(dst, key); err != nil {
			return dst, &FormatError{Path: l.paths[0], Entry: key, Msg: err.Error()}
		}
	}
	return dst, nil
}

func (l *valTar) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	withFields := func(it Item) (err error) {
		if it.Reason == "" && len(l.fields) > 0 {
			if l.values, err = l.appendFields(l.values[:0], it.Key); err != nil {
				return err
			}
			it.Fields = l.values
		}
		return fn(it)
	}
	w, val := &tarWalk{ctx: ctx, fn: withFields, strip: l.strip}, l.val.walk()
	err := l.each(s, func(t *tarReader) error {
		return w.files(t, func(h *tar.Header) error {
			if err := val.add(h.Name); err != nil {
				return t.errorf(h.Name, "%v", err)
			}
			return w.item(t, h, h.Name, val.byKey[h.Name])
		})
	})
	if err != nil {
		return labels{}, err
	}
	return val.labels(s), nil
}
