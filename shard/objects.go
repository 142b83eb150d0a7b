package shard

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// ObjectsName is the list of an index's objects, a JSON object in each line. Its path is relative to the source.
const ObjectsName = "objects.jsonl"

// An IndexObject is a file that holds images of an index.
type IndexObject struct {
	Path string `json:"path"`
	storage.Object
}

const (
	objectsMax    = 1 << 30  // bytes of ObjectsName
	objectLineMax = 64 << 10 // bytes of a line of it
	objectsStep   = 32       // lines
)

// AddObject adds a file to the list of those that the images of an index lie in, and returns its number. A set with one is an index.
func (w *SetWriter) AddObject(o IndexObject) (number int, err error) {
	if w.objects == nil {
		file, err := w.CreateFile(ObjectsName)
		if err != nil {
			return 0, err
		}
		w.objects = &objectList{file: file, lines: bufio.NewWriter(file), sha: sha256.New()}
	}
	l := w.objects
	line, err := encodeJSON(o, "")
	if err == nil && len(line) > objectLineMax {
		err = &LimitError{What: fmt.Sprintf("bytes of the path %.60q… in JSON", o.Path), Got: int64(len(line)), Max: objectLineMax}
	}
	if err == nil {
		l.sha.Write(line)
		_, err = l.lines.Write(line)
	}
	if err != nil {
		return 0, err
	}
	l.count++
	return l.count - 1, nil
}

// An objectList is ObjectsName as it is written.
type objectList struct {
	file  *os.File
	lines *bufio.Writer
	sha   hash.Hash
	count int
}

// finish ends the list, and returns the manifest's entry for it.
func (l *objectList) finish(source string) (*Index, error) {
	if l == nil {
		return nil, nil
	}
	err := errors.Join(l.lines.Flush(), l.file.Sync(), l.file.Close())
	return &Index{Source: source, Objects: l.count, SHA256: hex.EncodeToString(l.sha.Sum(nil))}, err
}

// objectLines reads lines of ObjectsName. The list stays in a file: it is longer than all else that an index takes in memory.
type objectLines struct {
	file interface {
		io.ReaderAt
		io.Closer
	}
	path   string
	count  int
	starts []int64 // place of every objectsStep-th line, and the end
}

// openObjects opens the list of an index and checks its SHA-256, sum. After a wrong answer of a network it asks once more.
func openObjects(files storage.Storage, sum string) (*objectLines, error) {
	l, err := readObjects(files, sum)
	if _, damaged := errors.AsType[*CorruptError](err); damaged && storage.IsRemote(files.String()) {
		return readObjects(files, sum)
	}
	return l, err
}

// readObjects reads the list once. A list behind a network is copied to a temporary file.
func readObjects(files storage.Storage, sum string) (*objectLines, error) {
	l := &objectLines{path: storage.Join(files.String(), ObjectsName)}
	f, err := files.Open(ObjectsName, -1, "")
	if err == nil && f.Size() > objectsMax {
		err = errors.Join(fmt.Errorf("%w: %d bytes", storage.ErrTooLarge, f.Size()), f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("shard: %s, the list of the files that this index is of: %w", l.path, err)
	}
	l.file = f
	var r io.Reader = io.NewSectionReader(f, 0, f.Size())
	if storage.IsRemote(l.path) {
		defer f.Close()
		copied, err := os.CreateTemp("", "imgfeed-objects-")
		if err != nil {
			return nil, fmt.Errorf("shard: copy %s to this machine: %w: set TMPDIR to a folder with room for it", l.path, err)
		}
		l.file, r = copied, io.TeeReader(storage.NewReader(f), copied)
		os.Remove(copied.Name())
	}
	hash := sha256.New()
	err = l.scan(io.TeeReader(r, hash))
	if got := hex.EncodeToString(hash.Sum(nil)); err == nil && got != sum {
		err = corrupt(l.path, "file", 0, fmt.Errorf("SHA-256 %s, the manifest says %.64s", got, sum))
	}
	if err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// scan finds where lines begin.
func (l *objectLines) scan(r io.Reader) error {
	lines, at := bufio.NewReaderSize(r, objectLineMax), int64(0)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 && l.count%objectsStep == 0 {
			l.starts = append(l.starts, at)
		}
		if len(line) > 0 {
			l.count++
			at += int64(len(line))
		}
		switch {
		case err == io.EOF:
			l.starts = append(l.starts, at)
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			return corrupt(l.path, "file", at, fmt.Errorf("line %d has more than %d bytes", l.count, objectLineMax))
		case err != nil:
			return fmt.Errorf("shard: %s: %w", l.path, err)
		}
	}
}

// at returns an object by its number.
func (l *objectLines) at(number uint32) (o IndexObject, err error) {
	begin := l.starts[number/objectsStep]
	lines := make([]byte, l.starts[number/objectsStep+1]-begin)
	n, err := l.file.ReadAt(lines, begin)
	if n == len(lines) {
		for range number % objectsStep {
			lines = lines[bytes.IndexByte(lines, '\n')+1:]
		}
		line, _, _ := bytes.Cut(lines, []byte("\n"))
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		return o, fmt.Errorf("line %d: %v", number+1, err)
	}
	return o, nil
}
