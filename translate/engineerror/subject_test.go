package engineerror

import "testing"

// TestSubject checks the messages with which engines reject an effort, or adjacent turns with the
// same role. The messages were recorded (llama.cpp's build 11669, vLLM's and llama.cpp's issues) or
// come from the source code.
func TestSubject(t *testing.T) {
	const (
		effort = "Unexpected reasoning effort high. Supported types are xhigh (default), medium, and low"
		roles  = "Conversation roles must alternate user/assistant/user/assistant/..."
		later  = "After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results."
	)
	for _, c := range []struct {
		name       string
		status     int
		body, said string
		want       RejectedSubject
	}{
		{"llama.cpp roles", 500, `{"error":{"code":500,"message":"\n------------\nWhile executing CallExpression at line 47, column 32 in source:\n...== 0) %}↵            {{- raise_exception('After the optional system message, con...\n                                           ^\nError: Jinja Exception: ` + later + `","type":"server_error"}}`, later, SubjectRoles},
		{"llama.cpp roles at the parser", 400, `{"error":{"code":400,"message":"Unable to generate parser for this template. Automatic parser generation failed: \n------------\nWhile executing CallExpression at line 2, column 78 in source:\n....index0 % 2 == 0) -%}{{- raise_exception('Conversation roles must alternate user...\n                                           ^\nError: Jinja Exception: ` + roles + `","type":"invalid_request_error"}}`, roles, SubjectRoles},
		{"llama.cpp effort", 500, `{"error":{"code":500,"message":"\n------------\nWhile executing CallExpression at line 4\nError: Jinja Exception: ` + effort + `","type":"server_error"}}`, effort, SubjectEffort},
		{"llama.cpp, another complaint of a template", 500, `{"error":{"code":500,"message":"Error: Jinja Exception: System message must be at the beginning.","type":"server_error"}}`, "System message must be at the beginning.", SubjectOther},
		{"Ollama passes it on", 500, `{"error":{"message":"{\"error\":{\"code\":500,\"message\":\"Error: Jinja Exception: ` + roles + `\",\"type\":\"server_error\"}}","type":"api_error","param":null,"code":null}}`, roles, SubjectRoles},
		{"vLLM roles", 400, `{"object":"error","message":"` + roles + `","type":"BadRequestError","param":null,"code":400}`, roles, SubjectRoles},
		{"vLLM, the template's effort", 500, `{"error":{"message":"` + effort + `","type":"InternalServerError","param":null,"code":500}}`, effort, SubjectEffort},
		{"vLLM, the template's effort, in a stream", 0, `{"error":{"message":"` + effort + `","type":"InternalServerError","param":null,"code":500}}`, effort, SubjectEffort},
		{"SGLang effort", 400, `{"object":"error","message":"1 validation error: {'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be 'low', 'medium' or 'high'\"}","type":"Bad Request","param":null,"code":400}`, "", SubjectEffort},
		{"Ollama effort", 400, `{"error":{"message":"invalid reasoning value: \"xhigh\" (must be \"high\", \"medium\", \"low\", \"max\", or \"none\")","type":"invalid_request_error"}}`, "", SubjectEffort},
		{"FastAPI effort", 422, `{"detail":[{"loc":["body","reasoning_effort"],"msg":"Input should be 'low', 'medium' or 'high'"}]}`, "", SubjectEffort},
		{"mistral-common", 400, `{"error":{"message":"Unexpected role 'user' after role 'user'","type":"BadRequestError","code":400}}`, "", SubjectRoles},
		{"a broken engine", 502, `{"error":{"message":"` + roles + `"}}`, roles, SubjectOther},
		{"anything else", 400, `{"error":{"message":"top_p must be in (0, 1]","type":"BadRequestError","code":400}}`, "", SubjectOther},
	} {
		e := ParseErrorBody(c.status, "application/json", []byte(c.body))
		if e.Subject != c.want || e.ClientFault != (c.status != 502) {
			t.Errorf("%s: got %+v, want the subject %v and a client's fault %v", c.name, e, c.want, c.status != 502)
		}
		if c.said != "" && e.Message != c.said {
			t.Errorf("%s: the client reads %q", c.name, e.Message)
		}
	}
}
