package pack

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// leftOutLineBytesMax bounds a line of a list: a name of a source that is too long for a key stands in it whole, with up to six bytes for one.
const leftOutLineBytesMax = 16 << 20

// ReadLeftOut calls fn for each line of a list of what a build left out, in their order: the list is name, [RejectsName] or [DuplicatesName], in
// the set in dir. The reason is that of a reject, else "". It is none where the set has no such list. An error names file and line.
func ReadLeftOut(dir, name string, fn func(key, reason string)) error {
	path := filepath.Join(dir, name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	return readLeftOut(f, path, fn)
}

func readLeftOut(r io.Reader, path string, fn func(key, reason string)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, leftOutLineBytesMax)
	n := 1
	for ; lines.Scan(); n++ {
		var line struct {
			Key    *string `json:"key"`
			Reason string  `json:"reason"`
		}
		err := json.Unmarshal(lines.Bytes(), &line)
		if err == nil && line.Key == nil {
			err = errors.New(`it has no "key"`)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d is none of a list of what a build left out: %w: copy the file again from where the set is whole", path, n, err)
		}
		fn(*line.Key, line.Reason)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s: line %d has more than %d bytes, and is none of a list of what a build left out: copy the file again from where the set is whole",
			path, n, leftOutLineBytesMax)
	case err != nil:
		return fmt.Errorf("%s: line %d: %w", path, n, err)
	}
	return nil
}
