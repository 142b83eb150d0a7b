package imgshard

import (
	"testing"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil/cliutiltest"
)

func TestSecretsAreRefused(t *testing.T) { cliutiltest.RefusesSecrets(t, newRoot) }
