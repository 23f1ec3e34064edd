/* One call of a model through TensorFlow's C API, without Python: the floor of the server's engine.

   floor FOLDER INPUT OUTPUT INDEX OUTPUT INDEX CALLS prints the median microseconds of a call with one image.
   INPUT and OUTPUT are operations of the graph. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/c_api.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void check(TF_Status *status) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s\n", TF_Message(status));
  exit(1);
}

int main(int count, char **words) {
  if (count != 8) return 2;
  const char *tags[] = {"serve"};
  unsigned char image[28 * 28];
  memset(image, 7, sizeof image);
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, words[1], tags, 1, graph, NULL, status);
  check(status);
  TF_Output input = {TF_GraphOperationByName(graph, words[2]), 0};
  TF_Output outputs[2] = {{TF_GraphOperationByName(graph, words[3]), atoi(words[4])},
                          {TF_GraphOperationByName(graph, words[5]), atoi(words[6])}};
  if (!input.oper || !outputs[0].oper || !outputs[1].oper) return 2;
  int calls = atoi(words[7]), warm = 50;
  double *taken = malloc(sizeof *taken * calls);
  for (int call = -warm; call < calls; call++) {
    const int64_t dims[] = {1, 28, 28};
    float probabilities[10];
    int64_t class;
    double begun = now();
    TF_Tensor *given = TF_AllocateTensor(TF_UINT8, dims, 3, sizeof image), *found[2];
    memcpy(TF_TensorData(given), image, sizeof image);
    TF_SessionRun(session, NULL, &input, &given, 1, outputs, found, 2, NULL, 0, NULL, status);
    check(status);
    for (int place = 0; place < 2; place++) {
      if (TF_TensorType(found[place]) == TF_FLOAT)
        memcpy(probabilities, TF_TensorData(found[place]), sizeof probabilities);
      else
        memcpy(&class, TF_TensorData(found[place]), sizeof class);
      TF_DeleteTensor(found[place]);
    }
    TF_DeleteTensor(given);
    if (call >= 0) taken[call] = now() - begun;
  }
  qsort(taken, calls, sizeof *taken, ascending);
  printf("%f\n", taken[calls / 2]);
  return 0;
}
