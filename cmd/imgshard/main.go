// Command imgshard packs datasets into shard sets and inspects them. It is for systems where imgfeed cannot run. On
// Linux imgfeed does the same when called by this name.
package main

import (
	"os"

	"github.com/imgfeed/imgfeed/cmd/internal/imgshard"
)

func main() { imgshard.Main(os.Args[1:]) }
