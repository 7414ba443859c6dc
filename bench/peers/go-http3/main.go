// Command go-http3 answers every request with "Pong!", or serves the files of a directory, by HTTP/3 with quic-go, and
// by HTTP/2 on the same port. Usage: go-http3 PORT DIRECTORY CERTIFICATE KEY [ADDRESS], where "-" is no directory.
// GOMAXPROCS gives the number of cores.
package main

import (
	"io"
	"log"
	"net/http"
	"os"

	"github.com/quic-go/quic-go/http3"
)

func pong(body []byte) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		io.Copy(io.Discard, request.Body)
		response.Header().Set("Content-Type", "text/plain")
		response.Write(body)
	})
}

func main() {
	handler := pong([]byte("Pong!"))
	if os.Args[2] != "-" {
		handler = http.FileServer(http.Dir(os.Args[2]))
	}
	address := "127.0.0.1"
	if len(os.Args) > 5 {
		address = os.Args[5]
	}
	log.Fatal(http3.ListenAndServeTLS(address+":"+os.Args[1], os.Args[3], os.Args[4], handler))
}
