package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestDerivedFilesAreCurrent derives every file again that a go:generate line of the module asks for.
func TestDerivedFilesAreCurrent(t *testing.T) {
	directive := regexp.MustCompile(`(?m)^//go:generate go run \S*lanes/generate (.*)$`)
	found := 0
	err := filepath.WalkDir("../../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range directive.FindAllSubmatch(text, -1) {
			j := parse(strings.Fields(string(line[1])))
			for _, name := range j.paths {
				found++
				checkDerived(t, filepath.Join(filepath.Dir(path), name), j)
			}
		}
		return nil
	})
	testenv.OK(t, err)
	testenv.Check(t, found != 0, "no go:generate line found")
}

func checkDerived(t *testing.T, path string, j job) {
	text := testenv.Must(os.ReadFile(path))(t)
	for _, l := range j.levels {
		want, name := testenv.Must(j.derive(filepath.Base(path), text, l))(t), j.target(path, l)
		testenv.Same(t, testenv.Must(os.ReadFile(name))(t), want, "%s is not what %s gives: run go generate there", name, path)
	}
}

func TestDeriveRefusesOtherFiles(t *testing.T) {
	for _, text := range []string{"package x\n", "//go:build amd64 && amd64\n\npackage x\n"} {
		testenv.Fails(new(job).derive("x_avx2.go", []byte(text), derived[0]))(t, nil, "derived a file from %q", text)
	}
}
