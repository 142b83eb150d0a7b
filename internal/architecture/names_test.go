package architecture

import (
	"flag"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
