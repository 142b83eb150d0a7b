// Package architecture holds every import against the table of rooms in docs/architecture.md.
package architecture

import (
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

	"github.com/imgfeed/imgfeed/internal/testenv"
)

const (
	root     = "../.."
	module   = "github.com/imgfeed/imgfeed/"
	document = root + "/docs/architecture.md"
)

// testHelpers are packages that only tests import.
var testHelpers = []string{"internal/pillowtest", "internal/testenv", "shard/source/sourcetest"}

// rooms returns the folders of the document's table from top to bottom. The folders of one row are of equal rank.
func rooms(t *testing.T) [][]string {
	t.Helper()
	text := testenv.Must(os.ReadFile(document))(t)
	_, table, found := strings.Cut(string(text), "| room |")
	testenv.Require(t, found, "%s has no table of rooms", document)
	var rows [][]string
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		var row []string
		for name := range strings.SplitSeq(cells[1], ",") {
			row = append(row, strings.Trim(name, " `"))
		}
		rows = append(rows, row)
	}
	return rows
}

// rank returns the row of a package's top folder and that folder.
func rank(rows [][]string, pkg string) (row int, room string) {
	room, _, _ = strings.Cut(pkg, "/")
	return slices.IndexFunc(rows, func(row []string) bool { return slices.Contains(row, room) }), room
}

// eachImport calls f for every import of every file of this module, under any build constraint.
func eachImport(t *testing.T, f func(file, pkg, imported string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Ext(file) != ".go":
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(strings.TrimPrefix(file, root+"/")))
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f(file, pkg, name)
		}
		return nil
	})
	testenv.OK(t, err)
}

// TestImports allows an import within a room or from a room further down, and nothing else. Tests may import anything, and only
// they import test helpers.
func TestImports(t *testing.T) {
	rows, seen := rooms(t), 0
	eachImport(t, func(file, pkg, imported string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		if strings.HasSuffix(imported, "/template") {
			t.Errorf("%s imports %s, which looks methods up by name: the linker then keeps every method of every type, and the program is 11 MB larger", file, imported)
		}
		imported, own := strings.CutPrefix(imported, module)
		if !own {
			return
		}
		seen++
		from, room := rank(rows, pkg)
		to, other := rank(rows, imported)
		switch {
		case from < 0 || to < 0:
			t.Errorf("%s imports %s: one of them is in no room of %s", file, imported, document)
		case from > to, from == to && room != other:
			t.Errorf("%s imports %s: imports lead down the table of %s", file, imported, document)
		case slices.Contains(testHelpers, imported) && !slices.Contains(testHelpers, pkg):
			t.Errorf("%s imports %s, a helper of tests", file, imported)
		}
	})
	testenv.Check(t, seen >= 100, "only %d imports found", seen)
}
