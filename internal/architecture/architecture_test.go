// Package architecture holds every import against the table of rooms in docs/architecture.md.
package architecture

import (
	"flag"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
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

// public are the packages that other programs may import.
var public = []string{"shard", "transform", "loader", "loader/plan", "server"}

// namesDocument lists the exported names of these packages.
const namesDocument = root + "/docs/api.txt"

var update = flag.Bool("update", false, "write "+namesDocument+" anew")

// TestExportedNames compares the exported names of the public packages with the committed list, so that each addition is a decision.
func TestExportedNames(t *testing.T) {
	var has []string
	for _, pkg := range public {
		for _, line := range exportedNames(t, pkg) {
			has = append(has, pkg+": "+line)
		}
	}
	if *update {
		testenv.OK(t, os.WriteFile(namesDocument, []byte(strings.Join(has, "\n")+"\n"), 0o666))
	}
	text := testenv.Must(os.ReadFile(namesDocument))(t)
	had := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range has {
		testenv.Check(t, slices.Contains(had, line), "%s has not: %s", namesDocument, line)
	}
	for _, line := range had {
		testenv.Check(t, slices.Contains(has, line), "only %s has: %s", namesDocument, line)
	}
	if t.Failed() {
		t.Log("is each of them meant? Then go test ./internal/architecture -update")
	}
}

// exportedNames returns a line for each exported name of a package, as go doc has it, in order.
func exportedNames(t *testing.T, pkg string) []string {
	t.Helper()
	dir := filepath.Join(root, pkg)
	found := testenv.Must(build.ImportDir(dir, 0))(t)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range found.GoFiles {
		file := testenv.Must(parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution))(t)
		files = append(files, file)
	}
	docs := testenv.Must(doc.NewFromFiles(fset, files, module+pkg))(t)
	var lines []string
	source := func(node any) string {
		var b strings.Builder
		testenv.OK(t, format.Node(&b, fset, node))
		return strings.Join(strings.Fields(b.String()), " ")
	}
	values := func(kind string, of ...*doc.Value) {
		for _, value := range of {
			for _, name := range value.Names {
				if ast.IsExported(name) {
					lines = append(lines, kind+" "+name)
				}
			}
		}
	}
	funcs := func(of ...*doc.Func) {
		for _, f := range of {
			f.Decl.Doc, f.Decl.Body = nil, nil
			lines = append(lines, source(f.Decl))
		}
	}
	values("const", docs.Consts...)
	values("var", docs.Vars...)
	funcs(docs.Funcs...)
	for _, typ := range docs.Types {
		values("const", typ.Consts...)
		values("var", typ.Vars...)
		funcs(slices.Concat(typ.Funcs, typ.Methods)...)
		for _, spec := range typ.Decl.Specs {
			lines = append(lines, typeLines(spec.(*ast.TypeSpec), source)...)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// typeLines returns the line of a type, and one for each exported field of a struct or method of an interface.
func typeLines(spec *ast.TypeSpec, source func(any) string) []string {
	head := "type " + spec.Name.Name
	var fields *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		head, fields = head+" struct", typ.Fields
	case *ast.InterfaceType:
		head, fields = head+" interface", typ.Methods
	default:
		if spec.Assign.IsValid() {
			head += " ="
		}
		return []string{head + " " + source(spec.Type)}
	}
	lines := []string{head}
	for _, field := range fields.List {
		names := field.Names
		if names == nil { // it is embedded
			lines = append(lines, head+", "+source(field.Type))
		}
		for _, name := range names {
			lines = append(lines, head+", "+name.Name+" "+source(field.Type))
		}
	}
	return lines
}
