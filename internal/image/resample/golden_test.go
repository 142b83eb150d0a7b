package resample

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

var update = flag.Bool("update", false, "write the lines of testdata/golden.txt that are of the installed Pillow's releases")

const goldenFile = "testdata/golden.txt"

// goldenCases are those of every filter, and half of them at the boundary between the orders, with pixels by their number.
func goldenCases(a Algorithm) []resizeCase {
	rng := rand.New(rand.NewPCG(31, 32))
	var cases []resizeCase
	for _, f := range everyFilter {
		for i := range 24 {
			c := randomCase(rng, f, 120)
			if i%2 == 1 {
				c = boundaryCase(rng, f, 120)
			}
			c.algorithm = a
			cases = append(cases, c)
		}
	}
	return cases
}

// goldenLine describes a case and its result.
func goldenLine(c resizeCase, pix []byte) string {
	return fmt.Sprintf("%v %v %d %d %d %d %d %d %d %d %08x", c.algorithm, c.filter, c.srcW, c.srcH, c.outW, c.outH, c.keep.Min.X, c.keep.Min.Y,
		c.keep.Max.X, c.keep.Max.Y, crc32.ChecksumIEEE(pix))
}

// TestGolden compares with checksums of what both kinds of Pillow's releases have made, where neither is installed.
func TestGolden(t *testing.T) {
	if *update {
		updateGolden(t)
	}
	file := testenv.Opened(os.Open(goldenFile))(t)
	want := map[string][]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, _, ok := strings.Cut(lines.Text(), " "); ok && name != "#" {
			want[name] = append(want[name], lines.Text())
		}
	}
	for _, level := range kernel.Available() {
		r := New(level)
		differ := 0
		after, before := goldenCases(Pillow13), goldenCases(Pillow12)
		for i := range after {
			newer, older := after[i].run(t, r, NHWC, false), before[i].run(t, r, NHWC, false)
			if !bytes.Equal(newer, older) {
				differ++
			}
			for _, line := range []string{goldenLine(after[i], newer), goldenLine(before[i], older)} {
				if name, _, _ := strings.Cut(line, " "); len(want[name]) != len(after) || line != want[name][i] {
					t.Fatalf("%v: %s is not line %d of the %d of this resampler", level, line, i+1, len(want[name]))
				}
			}
		}
		testenv.Check(t, differ >= 10, "%v: %d results tell the releases apart, too few to test their order", level, differ)
	}
}

// updateGolden asks the installed Pillow.
func updateGolden(t *testing.T) {
	p := startPillow(t)
	old, err := os.ReadFile(goldenFile)
	testenv.Require(t, err == nil || os.IsNotExist(err), "%v", err)
	lines := []string{"# resampler filter source output kept-from kept-to crc32: TestGolden's, by go test -run Golden -update with each Pillow"}
	for _, line := range strings.Split(strings.TrimSpace(string(old)), "\n") {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, p.algorithm.String()+" ") && line != "" {
			lines = append(lines, line)
		}
	}
	for _, c := range goldenCases(p.algorithm) {
		lines = append(lines, goldenLine(c, p.resize(c)))
	}
	// Lines keep the cases' order; those of the release that was asked come last.
	testenv.OK(t, os.WriteFile(goldenFile, []byte(strings.Join(lines, "\n")+"\n"), 0o666))
}
