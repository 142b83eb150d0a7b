package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdviceInPlace serves what needs a flag of imgshard: the error has the command that makes an index, and no flags that serve lacks.
func TestAdviceInPlace(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for name, dir := range map[string]string{"on opening": t.TempDir(), "on indexing": classFolders(t, "cat")} {
		if name == "on opening" {
			write(t, filepath.Join(dir, "1.jpg"), []byte("\xff\xd8\xff"))
		}
		x, _ := testIndexer(t)
		_, err := x.set(t.Context(), dir)
		if err == nil || !strings.Contains(err.Error(), "\n    imgshard index "+dir+" -o "+dir+"-index --no-labels\n") || strings.Contains(err.Error(), "add --") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir + "-index"); err == nil {
			t.Errorf("%s: the index is made already", name)
		}
	}
}
