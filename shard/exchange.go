package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// replacedSuffix is behind the name of a partial folder while exchangeByRenames keeps the replaced set there.
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

// restoreReplaced gives a set its name back if the build that was to replace it was killed between the two renames. Its
// partial folders are given; the caller holds the lock.
func restoreReplaced(dir string, partials []string) error {
	for _, path := range partials {
		if !strings.HasSuffix(path, replacedSuffix) {
			continue
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return err // the new set is in place, or nobody knows
		}
		if err := os.Rename(path, dir); err != nil {
			return fmt.Errorf("shard: give %s its name back, which a build that was killed had taken away: %w", filepath.Base(dir), err)
		}
	}
	return nil
}
