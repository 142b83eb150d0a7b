// Package architecture keeps docs/architecture.md true: which packages there are, in which layer, and that none imports
// what the document does not let it.
package architecture

import (
	"bytes"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw docs/imports.svg anew")

const (
	root     = "../.."
	module   = "github.com/imgfeed/imgfeed/"
	document = root + "/docs/architecture.md"
	drawing  = root + "/docs/imports.svg"
)

// A layer is a row of the document's table: packages, each of which may import those that stand after it in its row, and the
// rows that all of them may import.
type layer struct {
	name     string
	packages []string // "internal/encoding/..." stands for all below that folder
	below    []string
}

// layers reads the table whose header begins with "| layer |".
func layers(t *testing.T) []layer {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| layer |")
	if !found {
		t.Fatalf("%s has no table of layers", document)
	}
	var all []layer
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			break
		}
		all = append(all, layer{strings.TrimSpace(cells[1]), names(cells[2]), names(cells[3])})
	}
	return all
}

// names splits a cell at its commas and takes the backquotes off.
func names(cell string) []string {
	var list []string
	for name := range strings.SplitSeq(cell, ",") {
		if name = strings.Trim(name, " `"); name != "" && name != "–" {
			list = append(list, name)
		}
	}
	return list
}

// find returns the layer of a package and its place there; ok is false for a package that the table does not have.
func find(all []layer, pkg string) (in layer, place int, ok bool) {
	for _, l := range all {
		for i, name := range l.packages {
			folder, below := strings.CutSuffix(name, "/...")
			if pkg == name || below && strings.HasPrefix(pkg, folder+"/") {
				return l, i, true
			}
		}
	}
	return layer{}, 0, false
}

// imports returns, for each folder with Go files, what its files import of this module, with any build constraints.
func imports(t *testing.T, tests bool) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") != tests:
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(strings.TrimPrefix(file, root+"/")))
		found[pkg] = append(found[pkg], []string{}...)
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(name, module); ok && !slices.Contains(found[pkg], own) {
				found[pkg] = append(found[pkg], own)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestImports holds every import of every file against the table.
func TestImports(t *testing.T) {
	all := layers(t)
	found := imports(t, false)
	if len(found) < 20 {
		t.Fatalf("%d packages found", len(found))
	}
	for pkg, list := range found {
		from, place, ok := find(all, pkg)
		if !ok {
			t.Errorf("%s is in no layer of %s", pkg, document)
			continue
		}
		for _, imported := range list {
			to, at, ok := find(all, imported)
			switch {
			case !ok:
				t.Errorf("%s imports %s, which is in no layer of %s", pkg, imported, document)
			case to.name == from.name && at < place:
				t.Errorf("%s imports %s, which stands before it in the layer %s", pkg, imported, to.name)
			case to.name != from.name && !slices.Contains(from.below, to.name):
				t.Errorf("%s (%s) imports %s (%s): want only %s", pkg, from.name, imported, to.name, strings.Join(from.below, ", "))
			}
		}
	}
	for _, l := range all {
		for _, name := range l.packages {
			if _, ok := found[strings.TrimSuffix(name, "/...")]; !ok && !slices.ContainsFunc(keys(found), func(p string) bool {
				return strings.HasPrefix(p, strings.TrimSuffix(name, "..."))
			}) {
				t.Errorf("the layer %s names %s, which is not there", l.name, name)
			}
		}
	}
}

// TestForTestsOnly holds the helpers of tests out of the programs: only tests, and other such helpers, import them.
func TestForTestsOnly(t *testing.T) {
	used := make(map[string]bool)
	for _, list := range imports(t, true) {
		for _, pkg := range list {
			used[pkg] = true
		}
	}
	for _, l := range layers(t) {
		if l.name != "tests" {
			continue
		}
		for _, pkg := range l.packages {
			if !used[pkg] {
				t.Errorf("%s is there for tests, and none imports it", pkg)
			}
		}
	}
}

func keys(m map[string][]string) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

// TestDrawing draws the table: a row for each layer, an arrow to each layer that some package of it does import.
func TestDrawing(t *testing.T) {
	all := layers(t)
	want := draw(all, imports(t, false))
	if *update {
		if err := os.WriteFile(drawing, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(drawing)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the packages are; go test ./internal/architecture -update draws it anew", drawing)
	}
}

// draw returns the picture: layers from top to bottom, and right of them a lane in its own colour for each importing layer.
func draw(all []layer, found map[string][]string) []byte {
	const left, top, width, height, gap, lane = 20, 20, 680, 60, 16, 24
	colours := []string{"#cf222e", "#0969da", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#57606a"}
	var b bytes.Buffer
	y := func(i int) int { return top + i*(height+gap) }
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="The layers of packages and which layer imports which">
<style>.t{font:600 14px sans-serif;fill:#1f2328}.s{font:12.5px sans-serif;fill:#1f2328}path{fill:none;stroke-width:1.8}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, left+width+lane*(len(all)+1), y(len(all))+6)
	for i, l := range all {
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="#f6f8fa" stroke="%s"/>`+"\n", left, y(i), width, height, colours[i%len(colours)])
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="t">%s</text>`+"\n", left+12, y(i)+24, l.name)
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="s">%s</text>`+"\n", left+12, y(i)+46, strings.Join(l.packages, "   "))
	}
	edge := left + width
	for i, from := range all {
		x, colour := edge+lane*(i+1), colours[i%len(colours)]
		for k, to := range all {
			if k == i || !reaches(all, found, from, to) {
				continue
			}
			at := y(k) + 6 + i*7 // each importing layer has a place of its own at the edge
			fmt.Fprintf(&b, `<path d="M %d %d H %d V %d H %d" stroke="%s"/><path d="M %d %d l 9 -4 v 8 z" style="fill:%s" stroke="none"/>`+"\n",
				edge, y(i)+height-6, x, at, edge, colour, edge, at, colour)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// reaches says whether a package of one layer imports one of another.
func reaches(all []layer, found map[string][]string, from, to layer) bool {
	for pkg, list := range found {
		if in, _, ok := find(all, pkg); !ok || in.name != from.name {
			continue
		}
		for _, imported := range list {
			if l, _, ok := find(all, imported); ok && l.name == to.name {
				return true
			}
		}
	}
	return false
}
