package shard

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CreateFile makes a file of the caller's in the set's folder, beside the manifest, that appears and goes with the set: a list of what was left
// out, say. Its name may not be that of one of the set's own files. The caller writes, syncs and closes it before Commit.
func (w *SetWriter) CreateFile(name string) (*os.File, error) {
	if w.failed != nil {
		return nil, w.failed
	}
	if name == "" || name == ".." || name != filepath.Base(name) || name == manifestName || name == scratchName || strings.HasPrefix(name, "rank-") || strings.HasPrefix(name, ".") {
		return nil, fmt.Errorf("shard: a set cannot have a file %q", name)
	}
	return os.Create(filepath.Join(w.stage.partial, name))
}
