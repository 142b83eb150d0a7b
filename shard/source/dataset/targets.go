package dataset

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// TargetOptions decide about boxes and masks what the data cannot tell.
type TargetOptions struct {
	Take       string    // TakeObjects and so on; "" takes objects if there are any, else masks
	BoxFormat  string    // one of BoxFormats, for boxes without a declared format; "" is the first
	OneBased   bool      // the first pixel of a box in XML has the number 1
	ClipBoxes  bool      // cut boxes off at the image's edges
	DropCrowd  bool      // leave out objects that are marked as crowds or as difficult
	DropEmpty  bool      // leave out images without objects
	ReduceZero bool      // masks: 0 becomes 255, and any other label one less
	Map        *LabelMap // masks: labels of the set by those of the files; nil keeps them
}

// Takes says whether targets of a type are taken of a dataset that has these.
func (o TargetOptions) Takes(t shard.FieldType, objects, masks bool) bool {
	switch {
	case o.Take == TakeNone:
		return false
	case t == shard.Objects:
		return objects && o.Take != TakeMasks
	}
	return masks && (o.Take == TakeMasks || o.Take == TakeBoth || o.Take == "" && !objects)
}

// Asks says whether the options name TakeObjects or TakeMasks, or both.
func (o TargetOptions) Asks(take string) bool { return o.Take == take || o.Take == TakeBoth }

// Values of TargetOptions.Take.
const (
	TakeObjects = "objects"
	TakeMasks   = "masks"
	TakeBoth    = "both"
	TakeNone    = "none"
)

// BoxFormats are the values of TargetOptions.BoxFormat.
var BoxFormats = []string{"xywh", "xyxy", "cxcywh"}

// Digest says which of the options differ from their zero values; it is "" if none does.
func (o TargetOptions) Digest() string {
	if o == (TargetOptions{}) {
		return ""
	}
	labels := o.Map
	o.Map = nil
	return fmt.Sprintf("%+v %v", o, labels)
}

// Targets give the boxes and masks of a split's samples, and numbers of the samples beside them.
type Targets interface {
	Fields() shard.Fields
	// Append appends the values for a key, whose file is image, in layouts that are not streamed. The error is a *transport.RejectError if
	// only this sample cannot be used, and ErrDropped if the options leave it out. Many goroutines may call it.
	Append(dst []byte, key string, image []byte) ([]byte, error)
	// Pin appends what tells the files with a key's targets from changed ones, with their dates or without.
	Pin(dst []byte, key string, dates bool) ([]byte, error)
	// Notes returns messages for the user about all samples so far.
	Notes() []string
}

// ErrDropped says that the options leave out a sample for its targets.
var ErrDropped = errors.New("left out for its targets")

// A LabelMap gives labels of masks by those of the files.
type LabelMap struct {
	labels map[int]byte
	others int // label of all others; -1: they are refused
}

// ReadLabelMap reads a file of lines FROM TO, as "7 0"; * stands for all other labels.
func ReadLabelMap(path string) (*LabelMap, error) {
	text, err := transport.ReadLines(transport.FileSystem{}, path, "labels of masks")
	if err != nil {
		return nil, err
	}
	m := &LabelMap{labels: make(map[int]byte), others: -1}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t,;:", r) })
		if len(words) == 0 {
			continue
		}
		from, errFrom := strconv.Atoi(words[0])
		to, errTo := strconv.ParseUint(words[len(words)-1], 10, 8)
		if _, twice := m.labels[from]; len(words) != 2 || errTo != nil || (errFrom != nil || from < 0 || twice) && words[0] != "*" {
			return nil, transport.Refuse(path, "line %d: %.60q: FROM TO was expected, as 7 0, each FROM once, and TO from 0 to 255; "+
				"* 255 maps all others", n, line)
		}
		if words[0] == "*" {
			m.others = int(to)
		} else {
			m.labels[from] = byte(to)
		}
	}
	if len(m.labels) == 0 && m.others < 0 {
		return nil, transport.Refuse(path, "maps no labels: lines FROM TO were expected, as 7 0")
	}
	return m, lines.Err()
}

// MapOf is the map that gives the labels 0, 1, … for these of the files, and others for the rest.
func MapOf(others byte, labels ...int) *LabelMap {
	m := &LabelMap{labels: make(map[int]byte), others: int(others)}
	for i, from := range labels {
		m.labels[from] = byte(i)
	}
	return m
}

// Of returns the label for a file's; ok is false if the map has none.
func (m *LabelMap) Of(from int) (label byte, ok bool) {
	if label, ok = m.labels[from]; !ok && m.others >= 0 {
		return byte(m.others), true
	}
	return label, ok
}

// String lists the map for a digest.
func (m *LabelMap) String() string {
	if m == nil {
		return ""
	}
	pairs := make([]string, 0, len(m.labels)+1)
	for from, to := range m.labels {
		pairs = append(pairs, fmt.Sprint(from, ":", to))
	}
	slices.Sort(pairs)
	return fmt.Sprint(pairs, m.others)
}
