package bench

// CLI is the grammar of `penstock bench`, in kong's struct tags.
type CLI struct {
	Compare CompareCmd `cmd:"" help:"Compare two result files: every difference with an interval, and a verdict."`
	Report  ReportCmd  `cmd:"" help:"Draw a result file as one HTML page that needs no network."`
}
