package capacity

import (
	"archive/tar"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/synth"
)

// writeSource writes class folders with n images, and a file that is none; it returns their folder.
func writeSource(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "train")
	for k := range n {
		data, err := synth.Image("train", k%2, k, synth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, synth.WNID(k%2), string(rune('a'+k))+".jpg"), data)
	}
	writeFile(t, filepath.Join(dir, synth.WNID(0), "note.jpg"), []byte("no image"))
	return dir
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func config(t *testing.T) MeasureConfig {
	return MeasureConfig{Views: views(t, "cifar"), BatchSize: 4, Threads: 1, Duration: 100 * time.Millisecond}
}

// TestMeasure goes from class folders, from a tar of them, and from the sets that are packed of them, to measurements.
func TestMeasure(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx := t.Context()
	source := writeSource(t, 12)
	tarred := filepath.Join(t.TempDir(), "train.tar")
	f, err := os.Create(tarred)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	if err := errors.Join(w.AddFS(os.DirFS(source)), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "packed")
	sample, err := TakeSample(ctx, source, "")
	if err != nil {
		t.Fatal(err)
	}
	pixels, err := parse([]string{"--encoding", "pixels"}, false)
	if err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(t.TempDir(), "small")
	if _, err := pack.BuildFiles(ctx, sample.files, packed, pack.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pack.BuildFiles(ctx, sample.files, small, pack.Options{Encoding: pixels}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path              string
		samples, rejected int
		names             string
		note              string
	}{
		{source, 13, 1, "original, coefficients, pixels bitpack, pixels zstd, pixels lz4, pixels none", ""},
		{tarred, 13, 1, "original, coefficients, pixels bitpack, pixels zstd, pixels lz4, pixels none", ""},
		{packed, 12, 0, "original, coefficients, pixels bitpack, pixels zstd, pixels lz4, pixels none", ""},
		{small, 12, 0, "pixels bitpack", "other encodings are not compared"},
	} {
		s, err := TakeSample(ctx, c.path, "")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all, err := Measure(ctx, s, config(t))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i, m := range all {
			names = append(names, m.Name)
			if m.PerCore <= 0 || m.ImageBytes <= 0 || m.Rejected != c.rejected && (i > 0 || s.set == nil) || (m.Flags == nil) != (i == 0 && s.set != nil) {
				t.Errorf("%s: %+v", c.path, m)
			}
		}
		if got := strings.Join(names, ", "); got != c.names || s.Samples != c.samples || !s.Counted || !strings.Contains(strings.Join(s.Notes, "\n"), c.note) {
			t.Errorf("%s: %s of %d: %v", c.path, got, s.Samples, s.Notes)
		}
		rate, err := DiskRate(ctx, s, all[0].ImageBytes, 20*time.Millisecond)
		if rate <= 0 && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: the disk gives %v, %v", c.path, rate, err)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestNothingToMeasure wants words for what cannot be planned with.
func TestNothingToMeasure(t *testing.T) {
	none := writeSource(t, 0)
	empty := filepath.Join(t.TempDir(), "train")
	if err := os.MkdirAll(filepath.Join(empty, "n01440764"), 0o755); err != nil {
		t.Fatal(err)
	}
	damaged := t.TempDir()
	writeFile(t, filepath.Join(damaged, "manifest.json"), []byte("{"))
	for _, c := range []struct{ path, split, want string }{
		{filepath.Join(empty, "missing"), "", "missing"},
		{empty, "", "no image"},
		{damaged, "", "manifest.json"},
		{writeSource(t, 2), "val", `no split "val", only train`},
		{"-", "", "save it as a file"},
	} {
		if _, err := TakeSample(t.Context(), c.path, c.split); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	s, err := TakeSample(t.Context(), none, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Measure(t.Context(), s, config(t)); err == nil || !strings.Contains(err.Error(), "1 file was read, the first is") {
		t.Errorf("only rejects: %v", err)
	}
}

// TestInterrupted ends everything that takes long, and looks for what is left.
func TestInterrupted(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s, err := TakeSample(t.Context(), writeSource(t, 8), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c := config(t)
	c.Duration = time.Hour
	if _, err := Measure(ctx, s, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("measuring: %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if _, err := DiskRate(ctx, s, 1e5, time.Hour); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the disk: %v", err)
	}
	if _, err := TakeSample(ctx, s.Path, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sampling: %v", err)
	}
}
