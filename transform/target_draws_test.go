package transform

import (
	"encoding/json"
	"fmt"
	"image"
	"math"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// drawnCells counts what an operation draws: quantities in cells.
type drawnCells map[string]map[string]int

func (d drawnCells) count(quantity, cell string) {
	if d[quantity] == nil {
		d[quantity] = map[string]int{}
	}
	d[quantity][cell]++
}

// tenth returns the cell of a share, of ten.
func tenth(x float64) string { return fmt.Sprint(min(int(10*x), 9)) }

// TestTargetDraws compares what operations of detection and segmentation draw with what torchvision draws: χ² of two samples.
func TestTargetDraws(t *testing.T) {
	var torchvisions map[string]drawnCells
	testenv.OK(t, json.Unmarshal(pillowtest.Output(t, "testdata/target_draws.py", *update, "torchvision.tv_tensors"), &torchvisions))
	const w, h = 100, 80
	for name, text := range map[string]string{
		"RandomZoomOut": `{"op":"RandomZoomOut","p":1}`, "RandomIoUCrop": `{"op":"RandomIoUCrop"}`, "RandomPhotometricDistort": `{"op":"RandomPhotometricDistort"}`,
		"RandomResize": `{"op":"RandomResize","min_size":10,"max_size":17}`, "ScaleJitter": `{"op":"ScaleJitter","target_size":[60,50]}`,
		"RandomShortestSize": `{"op":"RandomShortestSize","min_size":[20,33,50],"max_size":60}`,
	} {
		op := mustParse(`[` + text + `,{"op":"CenterCrop","size":9}]`).ops[0]
		engine, log, got := NewEngine(kernel.Active()), &recorder{}, drawnCells{}
		engine.scratch[0].Resize(w, h)
		targets := new(Targets)
		for i := range 20000 {
			log.text = log.text[:0]
			targets.Boxes = append(targets.Boxes[:0], 10, 10, 60, 50, 40, 30, 95, 75)
			targets.begin(w, h)
			c := &canvas{engine: engine, draws: NewRNG(4, 5, i), log: log, from: &engine.scratch[0], step: wholeImage(w, h), rendered: 1, targets: targets}
			testenv.OK(t, op.apply(c))
			countDraws(t, got, name, log.String(), w, h, c)
		}
		for quantity, want := range torchvisions[name] {
			alike(t, name+" "+quantity, got[quantity], want)
		}
	}
}

// countDraws counts what one application drew, of an image of w × h pixels.
func countDraws(t *testing.T, got drawnCells, name, record string, w, h int, c *canvas) {
	t.Helper()
	var calls []map[string]any
	testenv.OK(t, json.Unmarshal([]byte(record), &calls))
	newW, newH := c.size()
	switch name {
	case "RandomZoomOut":
		got.count("width", tenth(float64(newW-w)/float64(3*w)))
		got.count("height", tenth(float64(newH-h)/float64(3*h)))
		if newW >= 2*w {
			r := calls[0]["padding"].([]any)
			got.count("left", tenth(r[0].(float64)/float64(newW-w+1)))
			got.count("top", tenth(r[1].(float64)/float64(newH-h+1)))
		}
	case "RandomIoUCrop":
		got.count("whole", map[bool]string{true: "True", false: "False"}[len(calls) == 0])
		if len(calls) == 0 {
			return
		}
		part := image.Pt(int(calls[0]["left"].(float64)), int(calls[0]["top"].(float64)))
		got.count("width", tenth(float64(newW)/float64(w+1)))
		got.count("height", tenth(float64(newH)/float64(h+1)))
		got.count("left", tenth(float64(part.X)/float64(w)))
		got.count("top", tenth(float64(part.Y)/float64(h)))
		kept := []string{}
		for _, outside := range c.targets.marked {
			kept = append(kept, map[bool]string{true: "0", false: "1"}[outside])
		}
		got.count("kept", strings.Join(kept, ","))
	case "RandomPhotometricDistort":
		countDistortions(got, calls)
	case "RandomResize":
		got.count("size", fmt.Sprintf("[%d]", min(newW, newH)))
	case "ScaleJitter":
		got.count("width", tenth(float64(newW)/125))
	case "RandomShortestSize":
		got.count("size", fmt.Sprintf("%d,%d", newH, newW))
	}
}

func countDistortions(got drawnCells, calls []map[string]any) {
	names := []string{"brightness", "contrast", "saturation", "hue"}
	ranges := [][2]float64{{0.875, 1.125}, {0.5, 1.5}, {0.5, 1.5}, {-0.05, 0.05}}
	which, channels, at := []byte("----"), "0,1,2", [4]int{}
	for k, call := range calls {
		if call["op"] == "permute_channels" {
			channels = strings.Trim(strings.ReplaceAll(fmt.Sprint(call["permutation"]), " ", ","), "[]")
		}
		for i, name := range names {
			if f, ok := call[name+"_factor"].(float64); ok {
				which[i], at[i] = 'x', k
				got.count(name, tenth((f-ranges[i][0])/(ranges[i][1]-ranges[i][0])))
			}
		}
	}
	got.count("which", string(which))
	if got.count("channels", channels); which[1] == 'x' && which[2] == 'x' {
		got.count("order", map[bool]string{true: "contrast first", false: "contrast last"}[at[1] < at[2]])
	}
}

// alike compares two samples by χ², of the cells with ten counts at least: its mean plus five deviations are allowed.
func alike(t *testing.T, what string, got, want map[string]int) {
	t.Helper()
	sums := [2]float64{}
	for _, n := range got {
		sums[0] += float64(n)
	}
	for _, n := range want {
		sums[1] += float64(n)
	}
	chi, cells := 0.0, 0
	for cell, n := range want {
		a, b := float64(got[cell]), float64(n)
		if a+b < 10 {
			continue
		}
		expected := (a + b) * sums[0] / (sums[0] + sums[1])
		other := a + b - expected
		chi += (a-expected)*(a-expected)/expected + (b-other)*(b-other)/other
		cells++
	}
	for cell, n := range got {
		if want[cell] == 0 && n >= 10 {
			t.Errorf("%s: %s comes %d times, and never in torchvision", what, cell, n)
		}
	}
	if free := float64(max(cells-1, 1)); chi > free+5*math.Sqrt(2*free) {
		t.Errorf("%s: χ² of %.1f with %v degrees of freedom: %v, torchvision %v", what, chi, free, got, want)
	}
}
