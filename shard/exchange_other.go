//go:build unix && !linux

package shard

import "os"

// exchange swaps two folders. For a moment nothing is under the name b: only Linux can do it in one step.
func exchange(a, b string) error {
	old := a + ".old" // still a name that the next build clears away
	if err := os.Rename(b, old); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return err
	}
	return os.Rename(old, a)
}
