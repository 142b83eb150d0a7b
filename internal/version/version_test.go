package version

import (
	"runtime/debug"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestFrom(t *testing.T) {
	stamped := &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20260101000000-1a2b3c4d5e6f"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "1a2b3c4d5e6f778899"}, {Key: "vcs.modified", Value: "true"},
	}}
	for _, c := range []struct {
		build          *debug.BuildInfo
		number, commit string
		want           string
	}{
		{nil, "", "", "(devel)"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "", "", "(devel)"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "", "", "v1.2.3"},
		{stamped, "", "", "v0.0.0-20260101000000-1a2b3c4d5e6f (1a2b3c4d5e6f, modified)"},
		{stamped, "0.1.0", "aabbccddeeff", "0.1.0 (aabbccddeeff)"},
		{nil, "0.1.0", "aabbccddeeff-dirty", "0.1.0 (aabbccddeeff, modified)"},
		{nil, "0.1.0", "", "0.1.0"}, // from an archive without git
	} {
		testenv.Equal(t, from(c.build, c.number, c.commit).String(), c.want, "%q, %q", c.number, c.commit)
	}
}
