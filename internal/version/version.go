// Package version identifies the build of a program.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// The Makefile sets these through the linker: the version of the Python package, so that the wheel and its binaries
// agree, and the output of `git describe`. Both are empty in a program built by go build or go install.
var (
	number string // "0.1.0"
	commit string // "1a2b3c4d5e6f", or "1a2b3c4d5e6f-dirty" with uncommitted changes
)

// Info describes a build.
type Info struct {
	Version  string `json:"version"` // "0.1.0"; "v0.1.0" by go install; "(devel)" if unknown
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns the build of the running program.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return from(build, number, commit)
}

// from combines the linker's values with Go's own build information, which may be nil.
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
