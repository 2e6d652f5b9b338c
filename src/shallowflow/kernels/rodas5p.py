"""Coefficients of Rodas5P, a stiff one-step method of order 5.

Rodas5P (Steinebach 2023, "Construction of Rosenbrock–Wanner method Rodas5P and numerical benchmarks within
the Julia Differential Equations package") is a Rosenbrock–Wanner method with 8 stages, order 5 and embedded
order 4, L-stable and stiffly accurate, with an interpolant of order 4. In the transformed variables U of
Hairer & Wanner (1996, IV.7), for an autonomous system θ' = F(θ) with Jacobian J at θ_0 and a step of length
h,

    (1/(hγ) I − J) U_i = F(θ_0 + Σ_{j<i} a_ij U_j) + Σ_{j<i} (C_ij/h) U_j,      i = 1, …, 8,
    θ_1 = θ_0 + Σ_{j<8} a_8j U_j + U_8,      error estimate U_8,
    θ(s) = (1 − s) θ_0 + s (θ_1 + (1 − s) (k_1 + s (k_2 + s k_3))),      k = H U,      0 ≤ s ≤ 1.

``GAMMA`` is γ, ``STAGE_WEIGHTS`` (8, 8) is a, ``COUPLING`` (8, 8) is C, ``DENSE_WEIGHTS`` (3, 8) is H.
"""

import numpy as np

STAGES = 8
GAMMA = 0.21193756319429014

STAGE_WEIGHTS = np.zeros((8, 8))
STAGE_WEIGHTS[1, :1] = (3.0,)
STAGE_WEIGHTS[2, :2] = (2.849394379747939, 0.45842242204463923)
STAGE_WEIGHTS[3, :3] = (-6.954028509809101, 2.489845061869568, -10.358996098473584)
STAGE_WEIGHTS[4, :4] = (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641)
STAGE_WEIGHTS[5, :5] = (
    -7.502846399306121,
    2.561846144803919,
    -11.627539656261098,
    -0.18268767659942256,
    0.030198172008377946,
)
# Stiff accuracy: the last two stages start from the end points of the embedded methods.
STAGE_WEIGHTS[6:, :5] = STAGE_WEIGHTS[5, :5]
STAGE_WEIGHTS[6:, 5] = 1.0
STAGE_WEIGHTS[7, 6] = 1.0

COUPLING = np.zeros((8, 8))
COUPLING[1, :1] = (-14.155112264123755,)
COUPLING[2, :2] = (-17.97296035885952, -2.859693295451294)
COUPLING[3, :3] = (147.12150275711716, -1.41221402718213, 71.68940251302358)
COUPLING[4, :4] = (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306)
COUPLING[5, :5] = (
    24.854864614690072,
    -3.0009227002832186,
    47.4931110020768,
    5.5814197821558125,
    -0.6610691825249471,
)
COUPLING[6, :6] = (
    30.91273214028599,
    -3.1208243349937974,
    77.79954646070892,
    34.28646028294783,
    -19.097331116725623,
    -28.087943162872662,
)
COUPLING[7, :7] = (
    37.80277123390563,
    -3.2571969029072276,
    112.26918849496327,
    66.9347231244047,
    -40.06618937091002,
    -54.66780262877968,
    -9.48861652309627,
)
DENSE_WEIGHTS = np.array(
    [
        [
            25.948786856663858,
            -2.5579724845846235,
            10.433815404888879,
            -2.3679251022685204,
            0.524948541321073,
            1.1241088310450404,
            0.4272876194431874,
            -0.17202221070155493,
        ],
        [
            -9.91568850695171,
            -0.9689944594115154,
            3.0438037242978453,
            -24.495224566215796,
            20.176138334709044,
            15.98066361424651,
            -6.789040303419874,
            -6.710236069923372,
        ],
        [
            11.419903575922262,
            2.8879645146136994,
            72.92137995996029,
            80.12511834622643,
            -52.072871366152654,
            -59.78993625266729,
            -0.15582684282751913,
            4.883087185713722,
        ],
    ]
)
