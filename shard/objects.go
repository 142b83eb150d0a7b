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

	"github.com/imgfeed/imgfeed/shard/storage"
)

// ObjectsName is the list of an index's objects, a JSON object in each line. Its path is relative to the source.
const ObjectsName = "objects.jsonl"

// An IndexObject is a file that holds images of an index.
type IndexObject struct {
	Path string `json:"path"`
	storage.Object
}

const objectsMax = 1 << 30 // bytes of ObjectsName

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
	file  io.WriteCloser
	lines *bufio.Writer
	sha   hash.Hash
	count int
}

// finish ends the list, and returns the manifest's entry for it.
func (l *objectList) finish(source string) (*Index, error) {
	if l == nil {
		return nil, nil
	}
	err := errors.Join(l.lines.Flush(), l.file.Close())
	return &Index{Source: source, Objects: l.count, SHA256: hex.EncodeToString(l.sha.Sum(nil))}, err
}

// objectLines is ObjectsName in memory.
type objectLines struct {
	path   string
	data   []byte
	starts []uint32 // place of each line
}

// readObjects reads the list of an index and checks its SHA-256, sum.
func readObjects(files storage.Storage, sum string) (*objectLines, error) {
	l := &objectLines{path: storage.Join(files.String(), ObjectsName)}
	var err error
	l.data, err = files.ReadFile(ObjectsName, objectsMax, func(data []byte) error {
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != sum {
			return corrupt(l.path, "file", 0, fmt.Errorf("SHA-256 %s, the manifest says %.64s", got, sum))
		}
		return nil
	})
	if _, damaged := errors.AsType[*CorruptError](err); err != nil && !damaged {
		err = fmt.Errorf("shard: %s, the list of the files that this index is of: %w", l.path, err)
	}
	at := 0
	for line := range bytes.Lines(l.data) {
		l.starts = append(l.starts, uint32(at))
		at += len(line)
	}
	return l, err
}

// at returns an object by its number.
func (l *objectLines) at(number uint32) (o IndexObject, err error) {
	line, _, _ := bytes.Cut(l.data[l.starts[number]:], []byte("\n"))
	if err = json.Unmarshal(line, &o); err != nil {
		err = fmt.Errorf("line %d: %v", number+1, err)
	}
	return o, err
}
