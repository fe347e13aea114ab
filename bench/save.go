package bench

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// saveFiles writes every file that the options ask for and returns their names.
func saveFiles(o *Options, r *Result, records []*Record) ([]string, error) {
	var files []string
	put := func(name string, appending bool, write func(io.Writer) error) error {
		flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if appending {
			flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
		}
		f, err := os.OpenFile(name, flags, 0o644) //nolint:gosec // a result is no secret
		if err != nil {
			return fmt.Errorf("write result: %w", err)
		}
		b := bufio.NewWriter(f)
		if err = write(b); err == nil {
			err = b.Flush()
		}
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return fmt.Errorf("write result %s: %w", name, err)
		}
		files = append(files, name)
		return nil
	}
	if o.savesResult() {
		name := orText(o.ResultFilename, fileName(r))
		if o.ResultDir != "" {
			if err := os.MkdirAll(o.ResultDir, 0o755); err != nil { //nolint:gosec // results are meant to be read by others
				return nil, fmt.Errorf("write result: %w", err)
			}
			name = filepath.Join(o.ResultDir, name)
		}
		if err := put(name, o.AppendResult, r.Write); err != nil {
			return nil, err
		}
	}
	for _, name := range o.Output {
		write := r.Write
		switch filepath.Ext(name) {
		case ".csv":
			write = func(w io.Writer) error { return writeCSV(w, r) }
		case ".html":
			write = func(w io.Writer) error { return WriteHTML(w, r) }
		case ".jsonl":
			write = func(w io.Writer) error { return writeRecords(w, records) }
		}
		if err := put(name, false, write); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// savesResult says whether vLLM's flags ask for a result file.
func (o *Options) savesResult() bool {
	return o.SaveResult || o.SaveDetailed || o.AppendResult || o.ResultFilename != ""
}

// fileName is vLLM's: {label}-{rate}qps[-concurrency{N}]-{model}-{date}.json.
func fileName(r *Result) string {
	label := r.Backend
	if r.Label != nil {
		label = *r.Label
	}
	rate := "inf"
	if !math.IsInf(float64(r.RequestRate), 0) {
		rate = strconv.FormatFloat(float64(r.RequestRate), 'f', -1, 64)
	}
	limit := ""
	if r.MaxConcurrency != nil {
		limit = "-concurrency" + strconv.Itoa(*r.MaxConcurrency)
	}
	model := r.ModelID[strings.LastIndexByte(r.ModelID, '/')+1:]
	name := label + "-" + rate + "qps" + limit + "-" + model + "-" + r.Date + ".json"
	return strings.NewReplacer("/", "-", ":", "-", "\x00", "").Replace(name)
}

// writeRecords writes a line of JSON for each request.
func writeRecords(w io.Writer, records []*Record) error {
	e := json.NewEncoder(w)
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// writeCSV writes a line for each stage.
func writeCSV(w io.Writer, r *Result) error {
	c := csv.NewWriter(w)
	head := []string{"stage", "rate", "concurrency", "start_s", "end_s", "requests", "completed", "failed", "left", "request_throughput", "input_throughput", "output_throughput", "goodput", "error_rate"}
	columns := []float64{50, 90, 95, 99}
	for _, m := range Measures() {
		head = append(head, "mean_"+m+"_ms")
		for _, p := range columns {
			head = append(head, "p"+percentileName(p)+"_"+m+"_ms")
		}
	}
	if err := c.Write(head); err != nil {
		return err
	}
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }
	opt := func(v *float64) string {
		if v == nil {
			return ""
		}
		return num(*v)
	}
	for i := range r.Penstock.Stages {
		s := &r.Penstock.Stages[i]
		limit := ""
		if s.Concurrency != nil {
			limit = strconv.Itoa(*s.Concurrency)
		}
		row := []string{
			s.Name, opt(s.Rate), limit, num(s.StartS), num(s.EndS), strconv.Itoa(s.Requests), strconv.Itoa(s.Completed), strconv.Itoa(s.Failed),
			strconv.Itoa(s.Left), opt(s.RequestThroughput), opt(s.InputThroughput), opt(s.OutputThroughput), opt(s.Goodput), opt(s.ErrorRate),
		}
		for _, m := range Measures() {
			d := s.Latency[m]
			if d == nil {
				row = append(row, "", "", "", "", "")
				continue
			}
			row = append(row, num(d.Mean))
			for _, p := range columns {
				row = append(row, num(d.Percentile(p)))
			}
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
