package pack

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// Reject is a file that was left out.
type Reject struct {
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
}

// A rejectList lists the rejected images in a file beside the set's own, which it makes for the first of them.
type rejectList struct {
	writer  *shard.SetWriter
	strict  bool
	file    io.WriteCloser
	buf     *bufio.Writer
	count   int
	reasons Reasons
}

func (l *rejectList) add(im *inFlight) (err error) {
	if l.strict {
		return fmt.Errorf("%s: %s, and --strict was given", im.key, im.reason)
	}
	if l.file == nil {
		if l.file, err = l.writer.CreateFile(shard.RejectsName); err != nil {
			return err
		}
		l.buf = bufio.NewWriter(l.file)
	}
	key := strings.ToValidUTF8(im.key, "\uFFFD") // the key that a reader of the list will get
	l.reasons.Add(key, im.reason)
	l.count++
	line := json.NewEncoder(l.buf)
	line.SetEscapeHTML(false)
	return line.Encode(Reject{Key: key, Bytes: max(im.bytes, int64(len(im.data))), Reason: im.reason})
}

// close ends the list, once or more often.
func (l *rejectList) close() error {
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.buf.Flush(), l.file.Close())
	l.file = nil
	return err
}

// rejectBytesMax bounds a line of a list, which holds a whole name of the source: up to six bytes for each of its bytes.
const rejectBytesMax = 16 << 20

// ReadRejects calls fn for each file that a build has left out, in the order of the list in the set's folder. A set without the list
// has left out nothing. An error names file and line.
func ReadRejects(dir string, fn func(Reject)) error {
	files, err := storage.At(dir)
	if err != nil {
		return err
	}
	f, err := files.Open(shard.RejectsName, -1, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	r := storage.NewReader(f)
	defer r.Close()
	return readRejects(r, storage.Join(dir, shard.RejectsName), fn)
}

func readRejects(r io.Reader, path string, fn func(Reject)) (err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, rejectBytesMax)
	n := 0
	for ; err == nil && lines.Scan(); n++ {
		var line struct {
			Key *string `json:"key"`
			Reject
		}
		if err = json.Unmarshal(lines.Bytes(), &line); err == nil && line.Key == nil {
			err = errors.New(`it has no "key"`)
		}
		if err == nil {
			line.Reject.Key = *line.Key
			fn(line.Reject)
		}
	}
	if err == nil && lines.Err() != nil {
		n, err = n+1, lines.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: line %d: %w: copy the file again from where the set is whole", path, n, err)
	}
	return nil
}

// A Reason is why images were left out or repaired: how many, and one of them.
type Reason struct {
	Reason  string `json:"reason"` // the first reason, where others differ in numbers only
	Samples int    `json:"samples"`
	Example string `json:"example"` // the key of the first
}

// Reasons counts images by reason.
type Reasons struct{ byReason map[string]*Reason }

var numbers = regexp.MustCompile(`\d+`)

// Add counts an image. Reasons that differ in numbers only (offsets, sizes) are one.
func (r *Reasons) Add(key, first string) {
	group := numbers.ReplaceAllString(first, "N")
	if r.byReason == nil {
		r.byReason = map[string]*Reason{}
	}
	c := r.byReason[group]
	if c == nil {
		c = &Reason{Reason: first, Example: key}
		r.byReason[group] = c
	}
	c.Samples++
}

// List returns the reasons, the commonest first.
func (r *Reasons) List() []Reason {
	list := make([]Reason, 0, len(r.byReason))
	for _, c := range r.byReason {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Reason) int {
		return cmp.Or(b.Samples-a.Samples, strings.Compare(a.Reason, b.Reason))
	})
	return list
}
