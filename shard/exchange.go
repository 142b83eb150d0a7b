package shard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// replacedSuffix is at the end of the name of a partial folder while exchangeByRenames keeps the replaced set there.
const replacedSuffix = ".replaced"

// exchangeByRenames puts folder a in the place of b, and b beside it. For a moment nothing is under the name b: a process that
// is killed just then leaves that to restoreReplaced.
func exchangeByRenames(a, b string) error {
	old := a + replacedSuffix
	if err := os.Rename(b, old); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Rename(old, b))
	}
	return os.Rename(old, a)
}

// restoreReplaced gives a set its name back if the build that was to replace it was killed between the two renames. The
// names of its partial folders are given; the caller holds the lock.
func restoreReplaced(dir string, partials []string) error {
	for _, name := range partials {
		if !strings.HasSuffix(name, replacedSuffix) {
			continue
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return err // the new set is in place, or nobody knows
		}
		if err := os.Rename(filepath.Join(filepath.Dir(dir), name), dir); err != nil {
			return err
		}
	}
	return nil
}
