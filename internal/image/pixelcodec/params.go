package pixelcodec

import (
	"fmt"
	"math/bits"
)

// A Group is one of the sixteen formats of eight by two residuals: the number of bit planes (0 to 8) and the residual
// for all zeros. Group {3, -5} holds residuals from −5 to 2.
type Group [2]int

const (
	groupCodes = 16

	minBandLog     = 1
	maxBandLog     = 15
	defaultBandLog = 5
)

// Params are the settings of a codec. A set's manifest stores them as JSON. The zero value is bitpack with its defaults.
type Params struct {
	// Codec is one of [Names]; empty means bitpack.
	Codec string `json:"codec"`

	// BandRows is the number of rows in a band, which decodes independently: a power of two from 2 to 32768; 0 means
	// 32. A crop also decodes the rows of its first band above it. A band's first row takes more bytes than the others.
	BandRows int `json:"band_rows,omitempty"`

	// Groups are the codes of bitpack's group headers; empty means [DefaultGroups]. There must be sixteen, including
	// {8, -128}, which holds all residuals.
	Groups []Group `json:"groups,omitempty"`

	// Level is zstd's effort, 1 (fastest) to 4 (smallest); 0 means 2. Only Encode depends on it.
	Level int `json:"level,omitempty"`
}

// DefaultGroups returns the group codes that make photographs smallest.
func DefaultGroups() []Group {
	return []Group{
		{0, 0}, {8, -128}, {4, -7}, {6, -40}, {3, -3}, {5, -16}, {2, -1}, {7, -64},
		{2, -2}, {3, -5}, {4, -10}, {5, -10}, {4, -4}, {5, -22}, {3, -2}, {6, -24},
	}
}

// normalise returns p with defaults filled in and without the codec's unused settings, or an error.
func (p Params) normalise() (Params, error) {
	if p.Codec == "" {
		p.Codec = Bitpack
	}
	if p.BandRows == 0 {
		p.BandRows = 1 << defaultBandLog
	}
	if p.BandRows < 1<<minBandLog || p.BandRows > 1<<maxBandLog || p.BandRows&(p.BandRows-1) != 0 {
		return p, fmt.Errorf("pixels: band_rows is %d, want a power of two from %d to %d", p.BandRows, 1<<minBandLog, 1<<maxBandLog)
	}
	if p.Level < 0 || p.Level > 4 {
		return p, fmt.Errorf("pixels: level is %d, want 1 to 4", p.Level)
	}
	if p.Codec != Zstd {
		p.Level = 0
	} else if p.Level == 0 {
		p.Level = 2
	}
	if p.Codec != Bitpack {
		p.Groups = nil
		return p, nil
	}
	if len(p.Groups) == 0 {
		p.Groups = DefaultGroups()
	}
	return p, checkGroups(p.Groups)
}

func checkGroups(groups []Group) error {
	if len(groups) != groupCodes {
		return fmt.Errorf("pixels: %d groups, want %d", len(groups), groupCodes)
	}
	catchAll := false
	for _, g := range groups {
		width, low := g[0], g[1]
		if width < 0 || width > 8 || low < -128 || low > 127 {
			return fmt.Errorf("pixels: group {%d, %d} is out of range", width, low)
		}
		catchAll = catchAll || width == 8 && low == -128
	}
	if !catchAll {
		return fmt.Errorf("pixels: no group {8, -128} among the groups")
	}
	return nil
}

func (p Params) bandLog() int { return bits.TrailingZeros(uint(p.BandRows)) }
