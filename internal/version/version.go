// Package version says which build of imgfeed and imgshard a program is.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// What the Makefile has the linker write here: the version of the Python package, so that the wheel and the binaries in it
// agree, and what `git describe` says of the tree. Both are empty in a program that was built by go build or go install.
var (
	number string // "0.1.0"
	commit string // "1a2b3c4d5e6f", or "1a2b3c4d5e6f-dirty" with changes that are not committed
)

// Info is what is known of a build.
type Info struct {
	Version  string `json:"version"` // "0.1.0"; by go install "v0.1.0"; "(devel)" where nothing told
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes that are not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get reads what the linker has left in the program.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return from(build, number, commit)
}

// from puts together what is stamped and, where that is missing, what Go knows by itself; build may be nil.
func from(build *debug.BuildInfo, number, commit string) Info {
	v := Info{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build != nil {
		if build.Main.Version != "" {
			v.Version = build.Main.Version
		}
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if number != "" {
		v.Version = number
	}
	if commit != "" {
		v.Commit, v.Modified = strings.CutSuffix(commit, "-dirty")
	}
	return v
}

// String returns the version in a few words: "0.1.0 (1a2b3c4d5e6f, modified)".
func (v Info) String() string {
	if v.Commit == "" {
		return v.Version
	}
	text := v.Version + " (" + v.Commit[:min(len(v.Commit), 12)]
	if v.Modified {
		text += ", modified"
	}
	return text + ")"
}
