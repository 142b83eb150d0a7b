package capacity

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/transform"
)

func views(t *testing.T, text string) transform.Views {
	t.Helper()
	v, err := transform.ParseViews(text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// measured are encodings as a processor of today serves ImageNet.
func measured(t *testing.T, v transform.Views) []Option {
	t.Helper()
	option := func(bytes, perCore float64, flags ...string) Option {
		e, err := parse(flags, false)
		if err != nil {
			t.Fatal(err)
		}
		o := Option{Name: name(e), Encoding: e.String(), Flags: flags, ImageBytes: bytes, PerCore: perCore, keepsFiles: e.HoldsOriginals()}
		for _, spec := range v {
			o.NotBitExact += e.NotBitExact(spec)
		}
		return o
	}
	return []Option{
		option(112e3, 2000, "--encoding", "original"),
		option(139e3, 20000, "--encoding", "pixels"),
		option(271e3, 18000, "--encoding", "pixels", "--codec", "none"),
	}
}

// TestCompute plans for machines, and wants what the numbers say.
func TestCompute(t *testing.T) {
	const tib = 1 << 40
	for _, c := range []struct {
		name               string
		machine            Machine
		need               Need
		transform          string
		bitExact           bool
		chosen, bottleneck string
		cores              int
		verdict            string
	}{
		{"files do", Machine{96, tib, 3e9}, Need{8, 56000, nil}, "train", false, "original", LimitGPU, 31, "The first epoch waits for the disk, which gives 26,800 images/s"},
		{"too few cores for files", Machine{32, tib, 3e9}, Need{8, 56000, nil}, "train", false, "pixels bitpack", LimitGPU, 4, "up to 480,000"},
		{"too few cores", Machine{10, tib, 3e9}, Need{8, 56000, nil}, "train", true, "original", LimitCPU, 31, "needs 31 cores, and the training processes 8"},
		{"too slow a disk, too little memory", Machine{96, 64 << 30, 1e9}, Need{8, 56000, nil}, "train", false, "original", LimitDisk, 31, "The disk: it gives 8,930 images/s of the 56,000"},
		{"a disk that nobody measured", Machine{96, 64 << 30, 0}, Need{8, 56000, nil}, "train", false, "original", LimitGPU, 31, "up to 176,000"},
		{"nothing is said of GPUs", Machine{4, tib, 3e9}, Need{}, "train", false, "pixels bitpack", LimitCPU, 0, "decode 80,000 images/s"},
		{"one core for all", Machine{1, tib, 3e9}, Need{1, 1000, nil}, "eval", true, "original", LimitGPU, 1, ""},
		{"the same bits by pixels", Machine{1, tib, 3e9}, Need{1, 10000, nil}, "eval", true, "pixels bitpack", LimitGPU, 1, ""},
	} {
		v := views(t, c.transform)
		p := &Plan{Sample: &Sample{Path: "/data", Samples: 1281167, Counted: true}, Encodings: measured(t, v), Machine: c.machine, Need: c.need}
		if err := p.Compute(v, 256, c.bitExact); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		o := &p.Encodings[p.Chosen]
		if o.Name != c.chosen || p.Bottleneck != c.bottleneck || o.CoresNeeded != c.cores || !strings.Contains(p.Verdict, c.verdict) {
			t.Errorf("%s: %s, %s, %d cores: %s (%s)", c.name, o.Name, p.Bottleneck, o.CoresNeeded, p.Verdict, p.Reason)
		}
	}
}

// TestLink plans for a set in a bucket, with a link that is too slow for the GPUs and with one that is not.
func TestLink(t *testing.T) {
	const set = 112e3 * 1281167. // bytes
	for _, c := range []struct {
		link, seconds float64
		cache         int64
		verdict       string
	}{
		{125e6, set / 125e6, 134_391_506_556, "The first epoch waits for the link, which gives 1,120 images/s"},
		{12.5e9, 1281167 / 16000., 0, "up to 64,000."},
	} {
		v := views(t, "train")
		p := &Plan{
			Sample: &Sample{Samples: 1281167, Store: "s3://bucket/set"}, Link: &Link{BytesPerSecond: c.link},
			Encodings: measured(t, v), Machine: Machine{Cores: 40, MemoryBytes: 1 << 40}, Need: Need{GPUs: 8, ImagesPerSecond: 16000},
		}
		if err := p.Compute(v, 256, false); err != nil {
			t.Fatal(err)
		}
		l := p.Link
		if l.Requests != 1281167 || math.Abs(l.FirstEpochSeconds-c.seconds) > 1e-6 || l.CacheBytes != c.cache || !strings.HasSuffix(strings.Split(p.Verdict, "; after")[0], c.verdict) {
			t.Errorf("%+v: %s", l, p.Verdict)
		}
	}
}

// TestSizes holds a plan's sizes to what the README says of a server.
func TestSizes(t *testing.T) {
	v := views(t, "train")
	p := &Plan{
		Sample: &Sample{Samples: 1281167}, Encodings: measured(t, v), Machine: Machine{Cores: 40, MemoryBytes: 1 << 40}, Need: Need{GPUs: 8, ImagesPerSecond: 16000},
	}
	if err := p.Compute(v, 256, false); err != nil {
		t.Fatal(err)
	}
	const slot = 38_539_264 // 256 × (224·224·3 + 8 + 8): images, labels and indices, in whole pages
	if p.Rings != 8 || p.Slots != 13 || p.SlotBytes != slot || p.FeedCores != 32 || p.UploadRate != 16000*150528 ||
		p.FeedBytes != 8*13*slot+32*threadBytes+1281167*indexBytes {
		t.Errorf("%+v", p)
	}
	if o := p.Encodings[0]; o.SetBytes != 112e3*1281167 || o.ReadRate != 16000*112e3 || o.DiskLimit != 0 || o.PerSecond != 64000 {
		t.Errorf("%+v", o)
	}
}

// TestOnlyInexact asks for the originals' bits of a set that has not the originals.
func TestOnlyInexact(t *testing.T) {
	v := views(t, "train")
	p := Plan{Sample: &Sample{Path: "/data", Samples: 10}, Encodings: measured(t, v)[1:], Machine: Machine{Cores: 2, MemoryBytes: 1 << 30}}
	if err := p.Compute(v, 2, true); err == nil || !strings.Contains(err.Error(), "without --bit-exact") {
		t.Error(err)
	}
	if err := p.Compute(v, 1<<60, true); err == nil || !strings.Contains(err.Error(), "impossible") {
		t.Error(err)
	}
}

// row is the rate as docs/planning.md has it.
func row(r Rate) string {
	return fmt.Sprintf("| %s | %s | %.0f | %.6g of %d | [%s](%s) |", r.GPU, r.Model, r.PerGPU(), r.ImagesPerSecond, r.GPUs, r.Measured, r.URL)
}

// TestRates holds the table to what makes it worth having: sources that can be looked up, and one row for a name; and the document to the table.
func TestRates(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/planning.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range Rates() {
		if name := r.GPU + " " + r.Model; seen[name] || !strings.HasPrefix(r.URL, "https://") || r.Measured == "" || r.GPUs < 1 || r.ImagesPerSecond <= 0 {
			t.Errorf("%+v", r)
		} else {
			seen[name] = true
		}
		if row := row(r); !strings.Contains(string(text), row) {
			t.Errorf("docs/planning.md has no row\n%s", row)
		}
	}
	if r, err := FindRate("H100", "ResNet50"); err != nil || r.PerGPU() < 7011 || r.PerGPU() > 7012 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range [][3]string{{"h1000", "resnet50", "GPU \"h1000\", only of h100, a100, v100, rtx3090"}, {"v100", "vit", "model \"vit\" on v100, only of resnet50"}} {
		if _, err := FindRate(c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 7.4: "7", 999: "999", 1234: "1,230", 56089: "56,100", 1043471: "1,040,000"} {
		if got := count(n); got != want {
			t.Errorf("%v is %s, want %s", n, got, want)
		}
	}
}
