package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/internal/chart"
	"odradek/cmd/internal/table"
	"odradek/detectors"
	"odradek/detectors/discord"
)

const discordsAbout = `Finds the discords of a column of a table: the stretches (subsequences) that are least like any other, for every
length from -min to -max (Zymbler and Kraeva, High-performance time series anomaly discovery on graphics processors, 2023).
FILE is a CSV, Parquet or Avro file; its rows are equally far apart in time. Rows are numbered from 1, without the line that
names the columns of a CSV file.

By default these are the -top discords of each length, without overlaps. With -radius they are all range discords: those whose
distance to the nearest stretch that does not overlap is at least the radius, as DRAG and PALMAD find them. A distance is between
stretches that are shifted to the mean 0 and scaled to the deviation 1; from 0 to 2*sqrt(length). auto takes a radius for each
length, by MERLIN's rule.

The ranking is over all lengths, by normalised distance: distance^2/(2*length), 1 less the correlation.
Stretches in which a row has no number are left out.`

const discordsExamples = `  worker discords -min 24 -max 168 demand.csv
  worker discords -min 24 -max 168 -radius auto -heatmap discords.svg -report discords.html demand.parquet
  worker discords -column kilowatts -min 96 -max 96 -radius 7.5 -csv demand.csv > discords.csv`

// discordsOptions are the flags of `discords`.
type discordsOptions struct {
	table           *tableOptions
	lengths         discord.Lengths
	top             int
	radius          float64
	most, ranked    int
	excludeFlat     bool
	heatmap, report string
}

func (t terminal) discords(ctx context.Context, args []string) int {
	fs, common := t.tableFlags("discords", discordsAbout, discordsExamples)
	o := discordsOptions{table: common}
	o.table.columnFlag = "-column"
	radius := ""
	fs.StringVar(&o.table.columns, "column", "", "column to search; it may be left out where there is one of numbers but time and timestamp")
	fs.IntVar(&o.lengths.Min, "min", 32, "rows of the shortest discords")
	fs.IntVar(&o.lengths.Max, "max", 128, "rows of the longest discords, at most half of the table")
	fs.IntVar(&o.lengths.Step, "step", 1, "rows from one length to the next")
	fs.IntVar(&o.top, "top", 1, "discords of each length, without overlaps; with -radius auto at least as many")
	fs.StringVar(&radius, "radius", "off", "least `distance` of range discords, or auto")
	fs.IntVar(&o.most, "most", 10_000, "discords of a length that are printed, the farthest; all are counted, ranked and drawn")
	fs.IntVar(&o.ranked, "ranked", 6, "discords in the ranking over all lengths, without overlaps")
	fs.BoolVar(&o.excludeFlat, "exclude-flat", false, "compare constant stretches with each other alone; otherwise their normalised\n"+
		"distance to others is 1")
	fs.StringVar(&o.heatmap, "heatmap", "", "`file` for a picture, SVG: the discords by place and length")
	fs.StringVar(&o.report, "report", "", "`file` for a page, HTML: the picture, the ranking and the number of discords of each length")
	o.table.executorFlag(fs)
	if code, done := o.table.parseFile(fs, args); done {
		return code
	}
	var err error
	o.radius, err = discord.ParseRadius(radius)
	lengths := 0
	if o.lengths.Step > 0 {
		lengths = (o.lengths.Max-o.lengths.Min)/o.lengths.Step + 1
	}
	switch {
	case err != nil:
		return o.table.bad("-radius %v", err)
	case o.radius > 2*math.Sqrt(float64(max(0, o.lengths.Max))):
		return o.table.bad("-radius %s: no distance is above 2*sqrt(length), %.4g for -max %d", radius, 2*math.Sqrt(float64(o.lengths.Max)),
			o.lengths.Max)
	case o.lengths.Min < 3 || o.lengths.Max < o.lengths.Min:
		return o.table.bad("-min %d -max %d: use 3 or more for -min, and at least -min for -max", o.lengths.Min, o.lengths.Max)
	case lengths < 1 || lengths > mostLengths:
		return o.table.bad("-step %d: use 1 or more, and at most %d lengths", o.lengths.Step, mostLengths)
	case o.top < 1 || o.top > mostTop || o.ranked < 0 || o.ranked > mostTop || o.most < 1:
		return o.table.bad("-top and -ranked are up to %d, and -most is above 0", mostTop)
	case len(commas(o.table.columns)) > 1:
		return o.table.bad("-column %s: one column at a time", o.table.columns)
	}
	if code, ok := o.table.checkFolders(outputFile{"heatmap", o.heatmap}, outputFile{"report", o.report}); !ok {
		return code
	}
	if err := o.run(ctx); err != nil {
		return t.fail(err)
	}
	return exitOK
}

const (
	mostLengths = 100_000
	mostTop     = 1000
)

// rowBytes is the memory of a row in the whole command: its value, what the search and the ranking keep of it, and a range discord.
func (o *discordsOptions) rowBytes(columns int) int64 {
	bytes := 8*columns + 170 + 12*o.table.workers
	if o.radius != 0 {
		bytes += 40
	}
	if o.table.executor != "cpu" { // a task
		bytes += 32
	}
	return int64(bytes)
}

// discordsHead, discordsLength and discordsEnd are what `discords` prints with -json, as one object; a length is printed as soon as it
// is searched.
type discordsHead struct {
	File    string `json:"file"`
	Column  string `json:"column"`
	Rows    int    `json:"rows"`
	Missing int    `json:"rows_without_a_number"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Step    int    `json:"step"`
	Top     int    `json:"top"`
	Radius  string `json:"radius"` // off, auto or a number
}

type discordsLength struct {
	Length   int            `json:"length"`
	Radius   *float64       `json:"radius,omitempty"`
	Count    int            `json:"count"` // of its discords, of which there are -most at most
	Seconds  float64        `json:"seconds"`
	Discords []foundDiscord `json:"discords"`
}

type foundDiscord struct {
	Row        int     `json:"row"` // the first, from 1
	Length     int     `json:"length"`
	Distance   float64 `json:"distance"`
	Normalised float64 `json:"normalised"`
	Neighbour  int     `json:"neighbour"` // first row of the nearest
}

type discordsEnd struct {
	Count      int            `json:"count"` // of all lengths
	Seconds    float64        `json:"seconds"`
	PerDiscord float64        `json:"seconds_per_discord"`
	Ranking    []foundDiscord `json:"ranking"`
}

func foundOf(d discord.Discord) foundDiscord {
	return foundDiscord{Row: d.At + 1, Length: d.Length, Distance: d.Distance, Normalised: discord.Normalised(d.Distance, d.Length, 1),
		Neighbour: d.Nearest + 1}
}

func (o *discordsOptions) run(ctx context.Context) error {
	n, err := o.table.read(ctx, commas(o.table.columns), o.rowBytes)
	if err != nil {
		return err
	}
	if len(n.Names) > 1 {
		return fmt.Errorf("discords: %s has several columns of numbers, %s: name one with -column", n.Path, strings.Join(n.Names, ", "))
	}
	missing := 0
	for _, v := range n.X {
		if v != v {
			missing++
		}
	}
	switch {
	case missing == n.Rows():
		return fmt.Errorf("discords: %s: column %s has no number", n.Path, n.Names[0])
	case n.Rows() < 6:
		return fmt.Errorf("discords: %s has %d rows, use 6 or more", n.Path, n.Rows())
	case 2*o.lengths.Max > n.Rows():
		which := "-max"
		if n.Rows() < 2*o.lengths.Min {
			which = "-min and -max"
		}
		return fmt.Errorf("discords: %s has %d rows, and stretches of %d need twice as many: use %s up to %d", n.Path, n.Rows(), o.lengths.Max,
			which, n.Rows()/2)
	}
	if missing > 0 {
		o.table.note("rows without a number: %d of %d; stretches that contain one are left out", missing, n.Rows())
	}
	radius := "off"
	if o.radius == discord.Auto {
		radius = "auto"
	} else if o.radius > 0 {
		radius = strconv.FormatFloat(o.radius, 'g', -1, 64)
	}
	p := discordsPrinter{o: o, head: discordsHead{File: n.Path, Column: n.Names[0], Rows: n.Rows(), Missing: missing, Min: o.lengths.Min,
		Max: o.lengths.Max, Step: o.lengths.Step, Top: o.top, Radius: radius}}
	end, heat, err := o.search(ctx, n.X, &p)
	if err != nil {
		return fmt.Errorf("discords: %w", err)
	}
	if err := p.end(end); err != nil {
		return fmt.Errorf("discords: %w", err)
	}
	picture := ""
	if o.heatmap != "" || o.report != "" {
		picture = chart.SVG(discordsCharts(n.X, n.Names[0], heat, end.Ranking))
	}
	if o.heatmap != "" {
		if err := writeFile(o.heatmap, func(w io.Writer) error { _, err := io.WriteString(w, picture); return err }); err != nil {
			return fmt.Errorf("discords: -heatmap: %w", err)
		}
	}
	if o.report != "" {
		if err := writeFile(o.report, func(w io.Writer) error { return p.page(w, end, picture) }); err != nil {
			return fmt.Errorf("discords: -report: %w", err)
		}
	}
	return nil
}

// Cells of the picture.
const (
	heatColumns = 1000
	heatRows    = 250
)

// search prints the discords of each length as soon as these are known.
func (o *discordsOptions) search(ctx context.Context, x []float64, p *discordsPrinter) (
	end *discordsEnd, heat *discord.Heatmap, err error,
) {
	lengths := o.lengths.All()
	progress := &table.Progress{Unit: "lengths"}
	// The first length takes as long as many that follow.
	const units = 1000
	first := int64(max(1, len(lengths)/4)) * units
	progress.Total.Store(first + int64(len(lengths)-1)*units)
	before, each := int64(0), first // units done before the present length, and units of the present length
	run := detectors.NewHelpers(o.table.workers - 1).Parallel(ctx)
	parallel := func(n int, f func(i int)) {
		done := make(chan struct{}, n)
		run(n, func(i int) {
			f(i)
			done <- struct{}{}
			progress.Done.Store(before + each*int64(len(done))/int64(n))
		})
	}
	starts := len(x) - o.lengths.Min + 1
	heat = &discord.Heatmap{Lengths: o.lengths, Starts: starts, Columns: min(starts, heatColumns), Rows: min(len(lengths), heatRows)}
	heat.Cells = make([]uint8, heat.Columns*heat.Rows)
	interest := discord.NewInterest(len(x), 1)
	end = &discordsEnd{}
	gpu, err := o.table.openGPU(o.takesColumn(len(x)), discordsTaken)
	if err != nil {
		return nil, nil, err
	}
	if gpu != nil {
		defer gpu.Close()
	}
	options := func(int) discord.Options { return discord.Options{ExcludeFlat: o.excludeFlat, Single: true} }
	stop := o.table.watch(progress)
	began := time.Now()
	at := began
	visit := func(r discord.Ranged) bool {
		if err = ctx.Err(); err != nil {
			err = errors.New("stopped before the search has ended")
			return false
		}
		for _, d := range r.Found {
			interest.Add(d)
			heat.Add(d.At, d.Length, discord.Normalised(d.Distance, d.Length, 1))
		}
		l := discordsLength{Length: r.Length, Count: r.Count, Seconds: seconds(at), Discords: []foundDiscord{}}
		if o.radius != 0 && r.Radius == r.Radius {
			l.Radius = &r.Radius
		}
		for _, d := range r.Found[:min(len(r.Found), o.most)] {
			l.Discords = append(l.Discords, foundOf(d))
		}
		end.Count += r.Count
		err = p.length(&l)
		progress.Rows.Add(1)
		before, each = before+each, units
		at = time.Now()
		return err == nil
	}
	switch {
	case gpu != nil:
		progress.Done.Store(0)
		progress.Total.Store(int64(len(lengths)))
		if failed := o.searchOnGPU(ctx, gpu, x, progress, visit); err == nil {
			err = failed
		}
	case o.radius != 0:
		discord.Ranges(x, &discord.RangeQuery{Lengths: o.lengths, Radius: o.radius, Top: o.top, Options: options}, parallel, visit)
	default:
		discord.Tops(x, o.lengths, o.top, options, parallel, func(m int, top []discord.Discord) bool {
			return visit(discord.Ranged{Length: m, Radius: math.NaN(), Count: len(top), Found: top})
		})
	}
	end.Seconds = seconds(began)
	stop()
	if end.Count > 0 {
		end.PerDiscord = end.Seconds / float64(end.Count)
	}
	end.Ranking = []foundDiscord{}
	for _, d := range interest.Top(o.ranked) {
		end.Ranking = append(end.Ranking, foundOf(d))
	}
	return end, heat, err
}

// discordsPrinter prints the lengths in the form that was asked for, and remembers their numbers.
type discordsPrinter struct {
	o      *discordsOptions
	head   discordsHead
	out    *bufio.Writer
	csv    *csv.Writer
	counts []discordsLength // without the discords
	cut    int              // lengths with more than are printed
}

// printHead prints what comes before the first length.
func (p *discordsPrinter) printHead() error {
	p.out = bufio.NewWriter(p.o.table.t.out)
	switch {
	case p.o.table.asJSON:
		head, err := json.Marshal(&p.head)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.out, "%s,\"lengths\":[", head[:len(head)-1])
		return err
	case p.o.table.asCSV:
		p.csv = csv.NewWriter(p.out)
		return p.csv.Write([]string{"length", "radius", "count", "rank", "row", "distance", "normalised", "neighbour"})
	}
	return nil
}

// length prints a length.
func (p *discordsPrinter) length(l *discordsLength) error {
	if len(p.counts) == 0 {
		if err := p.printHead(); err != nil {
			return err
		}
	}
	if l.Count > len(l.Discords) {
		p.cut++
	}
	if p.o.table.asJSON {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if len(p.counts) > 0 {
			text = append([]byte(","), text...)
		}
		if _, err := p.out.Write(text); err != nil {
			return err
		}
	}
	if p.o.table.asCSV {
		radius := ""
		if l.Radius != nil {
			radius = number(*l.Radius)
		}
		for i, d := range l.Discords {
			if err := p.csv.Write([]string{strconv.Itoa(l.Length), radius, strconv.Itoa(l.Count), strconv.Itoa(i + 1), strconv.Itoa(d.Row),
				number(d.Distance), number(d.Normalised), strconv.Itoa(d.Neighbour)}); err != nil {
				return err
			}
		}
	}
	kept := *l
	kept.Discords = slices.Clone(l.Discords[:min(1, len(l.Discords))])
	p.counts = append(p.counts, kept)
	return nil
}

// number writes a number with as many digits as it takes to read it again.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// rounded writes a number for people.
func rounded(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// end prints what follows the last length.
func (p *discordsPrinter) end(end *discordsEnd) error {
	switch {
	case p.o.table.asJSON:
		text, err := json.Marshal(end)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "],%s\n", text[1:])
	case p.o.table.asCSV:
		p.csv.Flush()
	default:
		if err := p.text(end); err != nil {
			return err
		}
	}
	if p.cut > 0 {
		p.o.table.note("%d lengths have more discords than -most %d; the others are counted, not printed", p.cut, p.o.most)
	}
	return p.out.Flush()
}

// shownLengths is the number of lengths that people see.
const shownLengths = 20

func (p *discordsPrinter) text(end *discordsEnd) error {
	fmt.Fprintf(p.out, "%s\n\nThe most interesting of all lengths:\n", p.summary(end))
	if err := printAligned(p.out, rankingHead, ranking(end)); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "\nBy length, with the first discord of each:\n")
	var rows [][]string
	every := (len(p.counts) + shownLengths - 1) / shownLengths
	for i := 0; i < len(p.counts); i += every {
		rows = append(rows, p.row(&p.counts[i]))
	}
	if err := printAligned(p.out, lengthsHead, rows); err != nil {
		return err
	}
	if every > 1 {
		fmt.Fprintf(p.out, "One length in %d is shown; -csv, -json and -report have all.\n", every)
	}
	return nil
}

// summary is a sentence.
func (p *discordsPrinter) summary(end *discordsEnd) string {
	what := fmt.Sprintf("the first %d of each length", p.o.top)
	if p.o.radius != 0 {
		what = "radius " + p.head.Radius
	}
	return fmt.Sprintf("%d discords of %d lengths (%d to %d), %s, in %d rows of %s, in %.3f s: %.3g ms a discord", end.Count, len(p.counts),
		p.head.Min, p.counts[len(p.counts)-1].Length, what, p.head.Rows, p.head.Column, end.Seconds, 1000*end.PerDiscord)
}

var (
	rankingHead = []string{"rank", "rows", "length", "distance", "normalised", "nearest row"}
	lengthsHead = []string{"length", "radius", "discords", "row", "distance", "normalised", "ms"}
)

func ranking(end *discordsEnd) (rows [][]string) {
	for i, d := range end.Ranking {
		rows = append(rows, []string{strconv.Itoa(i + 1), fmt.Sprintf("%d-%d", d.Row, d.Row+d.Length-1), strconv.Itoa(d.Length),
			rounded(d.Distance), rounded(d.Normalised), strconv.Itoa(d.Neighbour)})
	}
	return rows
}

func (p *discordsPrinter) row(l *discordsLength) []string {
	row := []string{strconv.Itoa(l.Length), "-", strconv.Itoa(l.Count), "-", "-", "-", strconv.FormatFloat(1000*l.Seconds, 'f', 0, 64)}
	if l.Radius != nil {
		row[1] = rounded(*l.Radius)
	}
	if len(l.Discords) > 0 {
		d := l.Discords[0]
		row[3], row[4], row[5] = strconv.Itoa(d.Row), rounded(d.Distance), rounded(d.Normalised)
	}
	return row
}

// page writes the report.
func (p *discordsPrinter) page(w io.Writer, end *discordsEnd, picture string) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Discords of %[1]s</title>
<style>body{font-family:system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #d8dde3}</style>
</head><body><h1>Discords of %[1]s</h1><p>%[2]s: %[3]s.</p>
%[4]s
<h2>The most interesting of all lengths</h2>
`, html.EscapeString(p.head.Column), html.EscapeString(p.head.File), html.EscapeString(p.summary(end)), picture)
	htmlTable(b, rankingHead, ranking(end))
	fmt.Fprint(b, "<h2>By length, with the first discord of each</h2>\n")
	var rows [][]string
	for i := range p.counts {
		rows = append(rows, p.row(&p.counts[i]))
	}
	htmlTable(b, lengthsHead, rows)
	fmt.Fprint(b, "</body></html>\n")
	return b.Flush()
}

func htmlTable(w io.Writer, head []string, rows [][]string) {
	fmt.Fprintf(w, "<table><tr><th>%s</th></tr>\n", strings.Join(head, "</th><th>"))
	for _, r := range rows {
		fmt.Fprintf(w, "<tr><td>%s</td></tr>\n", strings.Join(r, "</td><td>"))
	}
	fmt.Fprint(w, "</table>\n")
}

// discordsCharts draws the column with the ranking's stretches, and the heatmap below.
func discordsCharts(x []float64, column string, heat *discord.Heatmap, ranked []foundDiscord) []*chart.Chart {
	series := &chart.Chart{Title: column, X: "row", Y: column, Height: 260}
	line := envelope(x, heatColumns)
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range line {
		if v.Y == v.Y {
			low, high = min(low, v.Y), max(high, v.Y)
		}
	}
	for i, d := range ranked {
		series.Band([]string{"the most interesting", ""}[min(i, 1)], chart.Point{X: float64(d.Row), Y: low},
			chart.Point{X: float64(d.Row + d.Length - 1), Y: high}, chart.Style{Color: "#d1242f", Opacity: 0.25})
	}
	series.Line("", line, chart.Style{Color: "#0969da", Width: 1})
	least, most := math.Inf(1), math.Inf(-1)
	for i := range heat.Cells {
		if v := heat.Value(i/heat.Columns, i%heat.Columns); v == v {
			least, most = min(least, v), max(most, v)
		}
	}
	if most < 0 {
		least, most = 0, 0 // no discord
	}
	lengths := heat.Lengths.All()
	last := lengths[len(lengths)-1] + heat.Lengths.Step
	cells := &chart.Chart{X: "row", Y: "length", Height: 340,
		Title: fmt.Sprintf("discords by their first row: normalised distance, blue %.3g to red %.3g", least, most)}
	from, to := chart.Point{X: 1, Y: float64(heat.Lengths.Min)}, chart.Point{X: float64(heat.Starts + 1), Y: float64(last)}
	cells.CellsIn(from, to, heat.Columns, heat.Rows, func(column, row int) float64 { return heat.Value(row, column) }, least, most)
	cells.Dot("", chart.Point{X: float64(len(x)), Y: float64(heat.Lengths.Min)}, chart.Style{Color: "none"}) // both axes end with the last row
	return []*chart.Chart{series, cells}
}

// envelope is a line through the least and the largest value of each of at most n parts of a series.
func envelope(x []float64, n int) (points []chart.Point) {
	each := max(1, (len(x)+n-1)/n)
	for from := 0; from < len(x); from += each {
		part := x[from:min(len(x), from+each)]
		low, high := chart.Point{X: float64(from + 1), Y: math.NaN()}, chart.Point{X: float64(from + 1), Y: math.NaN()}
		for i, v := range part {
			if p := (chart.Point{X: float64(from + i + 1), Y: v}); v == v {
				if !(v >= low.Y) {
					low = p
				}
				if !(v <= high.Y) {
					high = p
				}
			}
		}
		if low.X > high.X {
			low, high = high, low
		}
		points = append(points, low)
		if high.X > low.X {
			points = append(points, high)
		}
	}
	return points
}
