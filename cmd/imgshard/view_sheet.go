package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
)

// A viewClass is the samples of one class.
type viewClass struct {
	Label   int32
	Class   string
	Samples []viewSample
}

// ByClass groups the samples for the page.
func (s *viewSheet) ByClass() []viewClass {
	var classes []viewClass
	for _, sample := range s.Samples {
		last := len(classes) - 1
		if last < 0 || classes[last].Label != sample.Label || classes[last].Class != sample.Class {
			classes = append(classes, viewClass{Label: sample.Label, Class: sample.Class})
			last++
		}
		classes[last].Samples = append(classes[last].Samples, sample)
	}
	return classes
}

const (
	sheetColumns = 8  // of a sheet without draws
	captionLines = 2  // under each picture
	captionLine  = 13 // pixels
	cellGap      = 6
)

// writePNG writes one picture: a row for each sample with its draws, or, without draws, samples in rows.
func (s *viewSheet) writePNG(out io.Writer) error {
	columns, cells := sheetColumns, [][]*thumbnail.Picture{}
	draws := len(s.Samples[0].Draws)
	if draws > 0 {
		columns = 1 + draws
	}
	height := thumbnailSide
	for _, sample := range s.Samples {
		row := append([]*thumbnail.Picture{sample.Original}, sample.Draws...)
		for _, t := range row {
			if t != nil {
				height = max(height, t.Height)
			}
		}
		cells = append(cells, row)
	}
	width := height
	cellHeight := height + captionLines*captionLine + cellGap
	rows := len(cells)
	if draws == 0 {
		rows = (len(cells) + sheetColumns - 1) / sheetColumns
	}
	sheet := image.NewRGBA(image.Rect(0, 0, columns*(width+cellGap), rows*cellHeight))
	draw.Draw(sheet, sheet.Bounds(), image.White, image.Point{}, draw.Src)
	for i, row := range cells {
		left, top := 0, i*cellHeight
		if draws == 0 {
			left, top = i%sheetColumns*(width+cellGap), i/sheetColumns*cellHeight
		}
		for k, t := range row {
			if err := drawThumbnail(sheet, t, left+k*(width+cellGap), top); err != nil {
				return err
			}
		}
		sample := s.Samples[i]
		caption := fmt.Sprintf("%d %s", sample.Label, sample.Class)
		if sample.Error != "" {
			caption = sample.Error
		}
		drawText(sheet, left, top+height+captionLine-2, width, caption)
		drawText(sheet, left, top+height+2*captionLine-2, width, sample.Key)
	}
	return png.Encode(out, sheet)
}

func drawThumbnail(sheet *image.RGBA, p *thumbnail.Picture, left, top int) error {
	if p == nil {
		return nil
	}
	picture, _, err := image.Decode(bytes.NewReader(p.Data))
	if err != nil {
		return err
	}
	draw.Draw(sheet, image.Rect(left, top, left+p.Width, top+p.Height), picture, image.Point{}, draw.Src)
	return nil
}

// drawText writes as much of a text as fits, its end if that is not all: the end of a key tells more.
func drawText(sheet *image.RGBA, left, baseline, width int, text string) {
	face := basicfont.Face7x13
	if fits := width / face.Advance; len(text) > fits {
		text = ".." + text[len(text)-fits+2:] // the face has no other ellipsis
	}
	d := font.Drawer{Dst: sheet, Src: image.NewUniform(color.Black), Face: face, Dot: fixed.P(left, baseline)}
	d.DrawString(text)
}
