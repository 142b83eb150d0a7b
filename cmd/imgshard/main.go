// Command imgshard packs datasets into shard sets and looks into them. On Linux imgfeed does that under this name, too; this program is for other
// systems, where imgfeed can't run.
package main

import (
	"os"

	"github.com/imgfeed/imgfeed/cmd/internal/imgshard"
)

func main() { imgshard.Main(os.Args[1:]) }
