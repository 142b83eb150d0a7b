package shard

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestHostileManifestTakesLittleMemory reads a manifest of a million shards of which nothing is said.
func TestHostileManifestTakesLittleMemory(t *testing.T) {
	body := `{"format":"imgshard","version":1,"shards":[` + strings.Repeat("{},", 1<<20) + "{}],\n "
	text := []byte(body + fmt.Sprintf(manifestTail, checksum([]byte(body))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decodeManifest("manifest.json", text)
	runtime.ReadMemStats(&after)
	if _, ok := errors.AsType[*CorruptError](err); !ok || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("error %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("reading %d bytes took %d", len(text), took)
	}
}
