package engineerror

import "testing"

// TestAbsent checks whether a 404 is about the model, the path, or an object that the client named.
func TestAbsent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      int
		contentType string
		body        string
		want        Absence
	}{
		// vLLM.
		{404, "", "{\"error\":{\"message\":\"The model `m` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}", AbsentModel},
		{404, "", `{"error":{"message":"?","param":"model","code":404}}`, AbsentModel},
		{404, "", "{\"object\":\"error\",\"message\":\"The model `a/b-c.1` does not exist.\",\"type\":\"NotFoundError\",\"code\":404}", AbsentModel},
		{404, "", "{\"error\":{\"message\":\"The model `/models/a` does not exist.\"}}", AbsentModel},
		// Ollama.
		{404, "", `{"error":{"message":"model 'a:7b' not found","type":"not_found_error","param":null,"code":null}}`, AbsentModel},
		{404, "", `{"error":"model \"a\" not found, try pulling it first"}`, AbsentModel},
		// Speaches.
		{404, "", `{"detail":"Model 'a' is not installed locally. You can download it."}`, AbsentModel},
		{404, "", `{"error":{"message":"No.","code":"model_not_found"}}`, AbsentModel},
		{404, "", `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, AbsentModel},
		{404, "", `{"type":"error","error":{"type":"not_found_error","message":"model: a does not exist"}}`, AbsentModel},
		{404, "", `{"error":"Model with name a does not exist."}`, AbsentModel},
		// vLLM, within a stream.
		{200, "", "{\"error\":{\"message\":\"The model `m` does not exist.\",\"code\":404}}", AbsentModel},

		{404, "", ``, AbsentPath}, // TGI
		{404, "text/html", `<html><body>model not found</body></html>`, AbsentPath},
		{404, "", `{}`, AbsentPath},
		{404, "", `{"detail":"Not Found"}`, AbsentPath},
		{404, "text/plain", `404 page not found`, AbsentPath},
		{404, "", `404: Not Found`, AbsentPath},
		{404, "", `{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`, AbsentPath},
		{404, "text/plain", `File Not Found (/v1/audio/speech)`, AbsentPath},
		{404, "", `{"error":{"message":"Invalid URL (POST /v1/images/generations)","type":"NotFoundError","param":null,"code":404}}`, AbsentPath},
		{404, "", `{"error":"Unexpected endpoint or method. (POST /v1/x)"}`, AbsentPath},
		{404, "", `Cannot POST /v1/x`, AbsentPath},
		{404, "", `{"message":"no Route matched with those values"}`, AbsentPath},
		{404, "", `The requested URL was not found on the server. If you entered the URL manually, check it.`, AbsentPath},
		{405, "", `{"detail":"Method Not Allowed"}`, AbsentPath},
		{405, "", `model 'a' not found`, AbsentPath},

		{404, "", `{"error":{"message":"image not found","type":"NotFoundError","param":null,"code":404}}`, AbsentNothing},
		{404, "", `{"error":{"message":"File not found: cat.png"}}`, AbsentNothing},
		{404, "", `{"detail":"Voice 'a' not found."}`, AbsentNothing},
		{404, "", `{"error":{"message":"404, message='Not Found', url='http://x/model.png'"}}`, AbsentNothing},
		{404, "", `{"error":{"message":"The lora adapter 'a' cannot be found."}}`, AbsentNothing},
		{400, "", `{"error":{"message":"model 'a' not found"}}`, AbsentNothing},
		{500, "", ``, AbsentNothing},
	} {
		e := ParseErrorBody(c.status, c.contentType, []byte(c.body))
		if e.Absent != c.want {
			t.Errorf("%d %s: absent %d, want %d", c.status, c.body, e.Absent, c.want)
		}
		if client := c.status == 404 && c.want == AbsentNothing; client != (c.status == 404 && e.ClientFault) {
			t.Errorf("%d %s: client's fault %v", c.status, c.body, e.ClientFault)
		}
	}
}

// TestAbsentHidesUnrelatedMessages checks that the client does not see a 404's message if the message refers
// to no part of the request.
func TestAbsentHidesUnrelatedMessages(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"error":"ask gpu7.rack.local"}`, `{"error":{"message":"No GPU","type":"oops"}}`, `moved to node-7`} {
		if e := ParseErrorBody(404, "", []byte(body)); e.Absent != AbsentNothing || e.ClientFault {
			t.Errorf("%s: absent %d, client's fault %v, want nothing and no fault", body, e.Absent, e.ClientFault)
		}
	}
}
