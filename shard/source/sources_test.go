package source

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

var updateDocs = flag.Bool("docs", false, "write the table of sources into docs/packing.md")

// TestDocumentsNameEveryKind checks that the table in docs/packing.md is made of the list, and that what stands there is said in full.
func TestDocumentsNameEveryKind(t *testing.T) {
	const doc, head = "../../docs/packing.md", "| SRC | | label |\n|---|---|---|\n"
	var table strings.Builder
	table.WriteString(head)
	kinds := Kinds()
	for i := range kinds { // from the most general
		k := kinds[len(kinds)-1-i]
		if k.Name == "" || len(k.Forms) == 0 || k.Labels == "" {
			t.Errorf("%+v says too little of itself", k)
		}
		table.WriteString("| " + k.Name + " | " + strings.Join(k.Forms, "; ") + " | " + k.Labels + " |\n")
	}
	text := testenv.Must(os.ReadFile(doc))(t)
	before, rest, ok := strings.Cut(string(text), head)
	end := strings.Index(rest, "\n\n") + 1
	if !ok || end == 0 {
		t.Fatalf("%s has no table of sources", doc)
	}
	want := before + table.String() + rest[end:]
	if *updateDocs {
		testenv.OK(t, os.WriteFile(doc, []byte(want), 0o666))
	} else if string(text) != want {
		t.Errorf("%s has another table of sources than the list: run this test with -docs", doc)
	}
}
